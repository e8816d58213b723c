import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { peerId } from '../../swarm/base.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { Resumes } from './resumes.ts';

const A = peerId('a');
const MINUTE_MS = 60_000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('who rests and comes back without end is taken back five times at once, then once a minute', () => {
  const resumes = new Resumes();
  const times: number[] = [];
  const begun = monotonicMs();
  for (let second = 0; second < 300; second++) {
    resumes.withdrawn(A);
    resumes.asked(A, () => times.push(monotonicMs() - begun));
    vi.advanceTimersByTime(1_000);
  }
  expect(times.filter((at) => at < 5_000)).toHaveLength(5);
  expect(times.length).toBeGreaterThanOrEqual(9);
  expect(times.length).toBeLessThanOrEqual(10);
  resumes.close();
});

test('one that waits is taken back by itself, unless it says otherwise or is gone', () => {
  for (const [end, comes] of [
    [() => {}, 1],
    [(resumes: Resumes) => resumes.withdrawn(A), 0],
    [(resumes: Resumes) => resumes.gone(A), 0],
  ] as const) {
    const resumes = new Resumes();
    let taken = 0;
    for (let i = 0; i < 6; i++) resumes.asked(A, () => taken++);
    expect(taken).toBe(5);
    end(resumes);
    vi.advanceTimersByTime(2 * MINUTE_MS);
    expect(taken - 5).toBe(comes);
  }
});
