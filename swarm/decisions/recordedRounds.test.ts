import { expect, it } from 'vitest';
import { autoIslands, overlapping } from '../testing/islands.ts';
import { RecordedRun } from '../testing/recordedRun.ts';
import { decisionConfig, rehearsalTerms } from '../testing/rehearsalTerms.ts';

const runOf = (part: Parameters<typeof rehearsalTerms>[0]) =>
  new RecordedRun(decisionConfig(rehearsalTerms({ layers: 2, ...part }).config, { replicas: 0 }));

const FOUR = { a: 10, b: 20, c: 40, d: 80 };

function four() {
  const run = runOf({ steps: 400, islands: autoIslands(1), expectedDonors: 4, checkpointEverySteps: 100 });
  for (const [name, stepMs] of Object.entries(FOUR)) run.join(name, stepMs);
  return run;
}

it('[IS65] [IS66] four unequal donors: each number once, as many of each as its speed allows, in twenty rounds at least', () => {
  const run = four();
  run.finish();
  expect(run.isFinished).toBe(true);
  expect(run.commits.map(({ number }) => number).toSorted((a, b) => a - b)).toEqual(
    Array.from({ length: 400 }, (_, number) => number),
  );
  expect(run.meetings.length).toBeGreaterThanOrEqual(20);
  expect(new Set(run.commits.map(({ island }) => island))).toEqual(new Set([0, 1, 2, 3]));
  const of = (island: number) => run.commits.filter((one) => one.island === island).length;
  expect(of(0)).toBeGreaterThan(1.5 * of(1));
  expect(of(1)).toBeGreaterThan(1.5 * of(2));
  expect(of(2)).toBeGreaterThan(of(3));
  expect(of(3)).toBeGreaterThan(10);
  expect(run.lines.filter((line) => line.startsWith('back'))).toEqual([]);
});

it('[IS68] [IS65] a donor that is lost: all go back to the checkpoint, as new islands, and each number is done once', () => {
  const run = runOf({ steps: 120, islands: autoIslands(1), expectedDonors: 3, checkpointEverySteps: 20 });
  for (const name of ['a', 'b', 'c'] as const) run.join(name, FOUR[name]);
  while (run.commits.length < 50) run.advance();
  const before = run.commits.length;
  run.gone('b');
  expect(run.commits.length).toBeLessThanOrEqual(before);
  const back = run.commits.length;
  run.finish();
  expect(run.commits.map(({ number }) => number).toSorted((a, b) => a - b)).toEqual(
    Array.from({ length: 120 }, (_, number) => number),
  );
  expect(new Set(run.commits.slice(0, back).map(({ island }) => island))).toEqual(new Set([0, 1, 2]));
  expect(new Set(run.commits.slice(back).map(({ island }) => island))).toEqual(new Set([3, 4]));
  expect(run.lines.filter((line) => line.startsWith('back'))).toHaveLength(1);
});

it('[IS68] one donor alone is one island, and goes on so', () => {
  const run = runOf({ steps: 40, islands: autoIslands(1), checkpointEverySteps: 10 });
  run.join('a', 10);
  run.finish();
  expect(run.commits.map(({ number, island }) => [number, island])).toEqual(
    Array.from({ length: 40 }, (_, number) => [number, 0]),
  );
  expect(run.meetings.length).toBeGreaterThanOrEqual(20);
});

it('[IS67] an island that is new does four steps in its first round', () => {
  const run = runOf({ steps: 10_000, islands: autoIslands(1), expectedDonors: 2, checkpointEverySteps: 10_000 });
  run.join('a', 10);
  run.join('b', 20);
  while (run.meetings.length < 2) run.advance();
  const inFirst = run.commits.filter(({ round }) => round === 0);
  expect([0, 1].map((island) => inFirst.filter((one) => one.island === island).length)).toEqual([4, 4]);
});

it('[IS80] [IS82] numbers are given out while a meeting is under way: four unequal donors are done sooner, each number once', () => {
  const [waiting, going] = [autoIslands(1), overlapping(autoIslands(1))].map((islands) => {
    const run = runOf({ steps: 400, islands, expectedDonors: 4, checkpointEverySteps: 100 });
    run.meetMs = 150;
    for (const [name, stepMs] of Object.entries(FOUR)) run.join(name, stepMs);
    run.finish();
    expect(run.commits.map(({ number }) => number).toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: 400 }, (_, number) => number),
    );
    expect(run.lines.filter((line) => line.startsWith('back'))).toEqual([]);
    return run;
  });
  expect(waiting?.commits.every(({ tookIn }) => tookIn === undefined)).toBe(true);
  const late = going?.commits.filter(({ tookIn, round }) => tookIn === round - 1) ?? [];
  expect(going?.commits.every(({ tookIn, round }) => tookIn === round || tookIn === round - 1)).toBe(true);
  expect(late.length).toBeGreaterThan(100);
  expect(going?.now).toBeLessThan(0.8 * (waiting?.now ?? 0));
});

it('[IS66] a first step that took long, as its pipelines were compiled, is not taken for the pace of its island', () => {
  const run = runOf({ steps: 24, islands: autoIslands(2), expectedDonors: 2, checkpointEverySteps: 24 });
  run.join('a', 3_000);
  run.join('b', 40);
  while (run.commits.every(({ island }) => island !== 0)) run.advance();
  run.slow('a', 10);
  run.finish();
  expect(run.commits.filter(({ island }) => island === 0).length).toBeGreaterThan(8);
});
