import { expect, test } from 'vitest';
import { addToKey, arrayOf, type PeerId, peerId } from '../base.ts';
import { PROBE_BYTES } from '../messages/frame.ts';
import {
  FRESH_MS,
  hasRoom,
  isProbeDue,
  type LinksTried,
  NO_SAMPLING,
  nextSampling,
  probePair,
  REST_MS,
  SAMPLE,
  withTried,
} from './linkSample.ts';

const peers = (count: number): PeerId[] => arrayOf(count, (index) => peerId(`p${index}`));
const pairText = (pair: readonly PeerId[]): string => pair.toSorted().join(' ');
const NOBODY: readonly PeerId[] = [];

/** Donors who do what they are asked. */
class LinkSample {
  sampling = NO_SAMPLING;
  donors: LinksTried[];

  constructor(all: readonly PeerId[]) {
    this.donors = all.map((peer) => ({ peer, tried: [], probe: null }));
  }

  measured(one: PeerId, other: PeerId, nowMs: number): void {
    this.donors = this.donors.map((donor) => {
      const partner = donor.peer === one ? other : donor.peer === other ? one : null;
      return partner === null ? donor : { ...donor, tried: withTried(donor.tried, partner, nowMs) };
    });
  }

  next(able: readonly PeerId[], members: readonly PeerId[], nowMs: number): readonly [PeerId, PeerId] | null {
    if (!isProbeDue(this.sampling, nowMs)) return null;
    const asked = this.donors.filter(({ peer }) => able.includes(peer));
    const pair = probePair(asked, members, this.sampling, nowMs);
    this.sampling = nextSampling(this.sampling, pair !== null, nowMs);
    if (pair === null) return null;
    this.measured(...pair, nowMs);
    this.donors = this.donors.map((donor) => {
      const partner = donor.peer === pair[0] ? pair[1] : donor.peer === pair[1] ? pair[0] : null;
      return partner === null ? donor : { ...donor, probe: { peer: partner, atMs: nowMs } };
    });
    return pair;
  }
}

test('each pair once in ten minutes, each donor once a minute, the swarm once a second', () => {
  const all = peers(6);
  const sample = new LinkSample(all);
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

test('what the run measures anyway is not asked for; a newcomer measures its links to the plan first', () => {
  const sample = new LinkSample(peers(5));
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
  expect(sample.next([a, b, c, d], [a, b], 0)).toBeNull();
  const met: string[] = [];
  for (let atMs = REST_MS; met.length < 4; atMs += REST_MS) {
    const pair = sample.next([a, b, c, d, newcomer], [a, b], atMs);
    expect(pair).toContain(newcomer);
    met.push(...(pair ?? []).filter((peer) => peer !== newcomer));
  }
  expect(met.slice(0, 2).toSorted()).toEqual([a, b]);
  expect(met.slice(2).toSorted()).toEqual([c, d]);
});

test('among many a donor knows a few links beside its own, and no more', () => {
  const all = peers(200);
  const sample = new LinkSample(all);
  const asked = new Map<PeerId, number>();
  for (let atMs = 0; atMs < FRESH_MS; atMs += 1_000)
    for (const peer of sample.next(all, NOBODY, atMs) ?? []) addToKey(asked, peer, 1);
  expect(asked.size).toBe(200);
  expect(Math.max(...asked.values())).toBeLessThanOrEqual(10);
  expect(SAMPLE).toBeLessThan(10);
});

test('[LI6] a probe takes no more of a cap than the run leaves, and half of it is the run’s', () => {
  const caps = (up: number | null, down: number | null) => ({ uploadBytesPerSecond: up, downloadBytesPerSecond: down });
  expect(hasRoom(caps(null, null), 1e9)).toBe(true);
  expect(hasRoom(caps(4 * PROBE_BYTES, null), 2 * PROBE_BYTES)).toBe(true);
  expect(hasRoom(caps(4 * PROBE_BYTES, null), 2 * PROBE_BYTES + 1)).toBe(false);
  expect(hasRoom(caps(null, 4 * PROBE_BYTES), 3 * PROBE_BYTES)).toBe(false);
  expect(hasRoom(caps(PROBE_BYTES - 1, null), 0)).toBe(false);
});
