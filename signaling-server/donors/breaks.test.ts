import { expect, test } from 'vitest';
import { SILENCE } from '../../swarm/coordinator/deadlines.ts';
import { Breaks, NetworkBreaks } from './breaks.ts';

/** When, of these times, a connection may break. */
const allowed = (may: (nowMs: number) => boolean, everyMs: number, times: number): number[] =>
  Array.from({ length: times }, (_, time) => time * everyMs).filter(may);

test('[RE81] a connection may break three times at once, then once in twenty seconds', () => {
  const breaks = new Breaks();
  const seconds = allowed((nowMs) => breaks.may(nowMs), 10_000, 9).map((ms) => ms / 1_000);
  expect(seconds).toEqual([0, 10, 20, 30, 40, 60, 80]);
});

test('[RE81] so may those of a network, whoever’s they are; all that break together are one', () => {
  const networks = new NetworkBreaks();
  const school = allowed(() => networks.may('192.0.2.1', 0), 0, 30);
  expect(school).toHaveLength(30);
  const inTurns = allowed((nowMs) => networks.may('192.0.2.2', nowMs), SILENCE.donorMs, 30);
  expect(inTurns.length).toBeLessThan(10);
  expect(networks.may('192.0.2.3', 30 * SILENCE.donorMs)).toBe(true);
});
