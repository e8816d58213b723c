import { expect, test } from 'vitest';
import { type PeerId, peerId, seededRandom } from '../base.ts';
import { PROBE_BYTES } from '../messages/frame.ts';
import { FRESH_MS, hasRoom, LinkSample, REST_MS, SAMPLE } from './linkSample.ts';

const peers = (count: number): PeerId[] => Array.from({ length: count }, (_, index) => peerId(`p${index}`));
const pairText = (pair: readonly PeerId[]): string => pair.toSorted().join(' ');
const NOBODY: ReadonlySet<PeerId> = new Set();

test('[AP8] each pair once in ten minutes, each donor once a minute, the swarm once a second', () => {
  const sample = new LinkSample(seededRandom(7));
  const all = peers(6);
  const probes: { readonly atMs: number; readonly pair: readonly PeerId[] }[] = [];
  for (let atMs = 0; atMs < FRESH_MS; atMs += 100) {
    const pair = sample.next(all, NOBODY, atMs);
    if (pair) probes.push({ atMs, pair });
  }
  expect(new Set(probes.map(({ pair }) => pairText(pair))).size).toBe(probes.length);
  expect(probes).toHaveLength(15); // every pair of six
  for (const [index, { atMs, pair }] of probes.entries())
    for (const before of probes.slice(0, index)) {
      expect(atMs - before.atMs).toBeGreaterThanOrEqual(1_000);
      if (pair.some((peer) => before.pair.includes(peer))) expect(atMs - before.atMs).toBeGreaterThanOrEqual(REST_MS);
    }
  expect(sample.next(all, NOBODY, FRESH_MS + 2 * REST_MS)).not.toBeNull();
});

test('[AP8] what the run measures anyway is not asked for; a newcomer measures its links to the plan first', () => {
  const sample = new LinkSample(seededRandom(7));
  const [a, b, c, d, newcomer] = peers(5);
  if (!a || !b || !c || !d || !newcomer) throw new Error('five');
  for (const [one, other] of [
    [a, b],
    [c, d],
    [a, c],
    [a, d],
    [b, c],
    [b, d],
  ] as const)
    sample.measured(one, other, 0);
  expect(sample.next([a, b, c, d], new Set([a, b]), 0)).toBeNull();
  const met: string[] = [];
  for (let atMs = REST_MS; met.length < 4; atMs += REST_MS) {
    const pair = sample.next([a, b, c, d, newcomer], new Set([a, b]), atMs);
    expect(pair).toContain(newcomer);
    met.push(...(pair ?? []).filter((peer) => peer !== newcomer));
  }
  expect(met.slice(0, 2).toSorted()).toEqual([a, b]);
  expect(met.slice(2).toSorted()).toEqual([c, d]);
});

test('[AP8] an answer counts from whom it was asked; who goes is forgotten', () => {
  const sample = new LinkSample(seededRandom(7));
  const [a, b, c] = peers(3);
  if (!a || !b || !c) throw new Error('three');
  expect(sample.isAsked(a, b)).toBe(false);
  expect(sample.next([a, b], NOBODY, 0)).toEqual([a, b]);
  expect([sample.isAsked(a, b), sample.isAsked(b, a), sample.isAsked(a, c)]).toEqual([true, true, false]);
  sample.gone(b);
  expect(sample.isAsked(b, a)).toBe(false);
  expect(sample.next([a, b], NOBODY, REST_MS)).not.toBeNull();
});

test('[AP8] among many a donor knows a few links beside its own, and no more', () => {
  const sample = new LinkSample(seededRandom(7));
  const all = peers(200);
  const asked = new Map<PeerId, number>();
  for (let atMs = 0; atMs < FRESH_MS; atMs += 1_000)
    for (const peer of sample.next(all, NOBODY, atMs) ?? []) asked.set(peer, (asked.get(peer) ?? 0) + 1);
  expect(asked.size).toBe(200);
  expect(Math.max(...asked.values())).toBeLessThanOrEqual(10);
  expect(SAMPLE).toBeLessThan(10);
});

test('[AP8] [LI6] a probe takes no more of a cap than the run leaves, and half of it is the run’s', () => {
  const caps = (up: number | null, down: number | null) => ({ uploadBytesPerSecond: up, downloadBytesPerSecond: down });
  expect(hasRoom(caps(null, null), 1e9)).toBe(true);
  expect(hasRoom(caps(4 * PROBE_BYTES, null), 2 * PROBE_BYTES)).toBe(true);
  expect(hasRoom(caps(4 * PROBE_BYTES, null), 2 * PROBE_BYTES + 1)).toBe(false);
  expect(hasRoom(caps(null, 4 * PROBE_BYTES), 3 * PROBE_BYTES)).toBe(false);
  expect(hasRoom(caps(PROBE_BYTES - 1, null), 0)).toBe(false);
});
