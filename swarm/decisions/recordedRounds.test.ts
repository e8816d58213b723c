import { describe, expect, it } from 'vitest';
import { arrayOf, below, peerId, seededRandom } from '../base.ts';
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
  expect(run.commits.map(({ number }) => number).toSorted((a, b) => a - b)).toEqual(arrayOf(400, (number) => number));
  expect(run.meetings.length).toBeGreaterThanOrEqual(20);
  expect(new Set(run.commits.map(({ island }) => island))).toEqual(new Set([0, 1, 2, 3]));
  const of = (island: number) => run.commits.filter((one) => one.island === island).length;
  expect(of(0)).toBeGreaterThan(1.5 * of(1));
  expect(of(1)).toBeGreaterThan(1.5 * of(2));
  expect(of(2)).toBeGreaterThan(of(3));
  expect(of(3)).toBeGreaterThan(10);
  expect(run.lines.filter((line) => line.startsWith('back'))).toEqual([]);
});

/** Each once, whoever did them. */
const everyNumber = (run: RecordedRun) => {
  const { steps } = run.config.run;
  expect(run.commits.map(({ number }) => number).toSorted((a, b) => a - b)).toEqual(arrayOf(steps, (number) => number));
};

describe('an island whose donor is lost', () => {
  const three = () => {
    const run = runOf({ steps: 120, islands: autoIslands(1), expectedDonors: 3, checkpointEverySteps: 60 });
    for (const name of ['a', 'b', 'c'] as const) run.join(name, FOUR[name]);
    return run;
  };
  const roundOf = (run: RecordedRun): number => run.commits.at(-1)?.round ?? -1;

  it.each(['a', 'b', 'c'])(
    '[IS85] ends alone: nothing of the others is given up, and they do its steps (%s)',
    (name) => {
      const run = three();
      const island = 'abc'.indexOf(name);
      // In the middle of a round, of which it has done a part.
      const hasBegun = () => run.commits.some((one) => one.island === island && one.round === roundOf(run));
      while (roundOf(run) < 6 || !hasBegun()) run.advance();
      const round = roundOf(run);
      const isUndone = (one: (typeof run.commits)[number]) => one.island === island && one.round === round;
      const [undone, kept] = [run.commits.filter(isUndone), run.commits.filter((one) => !isUndone(one))];
      run.gone(name);
      expect(run.commits.map(({ number }) => number)).toEqual(kept.map(({ number }) => number));
      expect(run.commits.map(({ step }) => step)).toEqual(kept.map((_, step) => step));
      run.finish();
      everyNumber(run);
      for (const { number } of undone) {
        const again = run.commits.find((one) => one.number === number);
        expect(again?.island).not.toBe(island);
        expect(again?.round).toBeGreaterThanOrEqual(round);
      }
      expect(new Set(run.commits.filter((one) => one.round > round).map((one) => one.island))).toEqual(
        new Set([0, 1, 2].filter((one) => one !== island)),
      );
      expect(run.lines.filter((line) => /^(back|island)/.test(line))).toEqual([`island ${island} has ended`]);
      // Each is what it was: the others got no other plan.
      expect(run.lines.filter((line) => line.startsWith('epoch'))).toEqual(['epoch 0: a', 'epoch 1: b', 'epoch 2: c']);
    },
  );

  it('[IS85] during a meeting: that is held again without what it did', () => {
    const run = three();
    run.silent.add(peerId('b'));
    while (run.state.apart.meetings.current === null) run.advance();
    expect(run.commits.some(({ island }) => island === 1)).toBe(true);
    run.gone('b');
    expect(run.commits.some(({ island }) => island === 1)).toBe(false);
    run.finish();
    everyNumber(run);
    expect(run.lines.filter((line) => line.startsWith('back'))).toEqual([]);
  });

  it('[IS85] [IS52] while it saves for all, and they wait for that: another one saves, and nothing is lost', () => {
    const run = three();
    while (run.state.groups[0]?.coordinator.isSavedFirst !== true) run.advance();
    // At the end.
    expect(run.commits.length).toBe(120);
    run.gone('a');
    expect(run.commits.length).toBe(120);
    run.finish();
    everyNumber(run);
    expect(run.lines.slice(-2)).toEqual(['island 0 has ended', 'checkpoint 120']);
  });

  it('[IS68] the last one: the run goes back to the checkpoint, and goes on with the next donor as a new island', () => {
    const run = runOf({ steps: 40, islands: autoIslands(1), checkpointEverySteps: 10 });
    run.join('a', 10);
    while (run.commits.length < 25) run.advance();
    run.gone('a');
    run.join('b', 10);
    const back = run.commits.length;
    run.finish();
    everyNumber(run);
    expect(new Set(run.commits.slice(back).map(({ island }) => island))).toEqual(new Set([1]));
    expect(run.lines.filter((line) => line.startsWith('back'))).toHaveLength(1);
  });
});

it('[IS68] one donor alone is one island, and goes on so', () => {
  const run = runOf({ steps: 40, islands: autoIslands(1), checkpointEverySteps: 10 });
  run.join('a', 10);
  run.finish();
  expect(run.commits.map(({ number, island }) => [number, island])).toEqual(arrayOf(40, (number) => [number, 0]));
  expect(run.meetings.length).toBeGreaterThanOrEqual(20);
});

it('an island that is new does four steps in its first round', () => {
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
    expect(run.commits.map(({ number }) => number).toSorted((a, b) => a - b)).toEqual(arrayOf(400, (number) => number));
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

/** Donors that come, go, leave and are silent at meetings, in an order by chance; then nothing more goes wrong. */
function chaos(seed: number, isOverlapping = false) {
  const random = seededRandom(seed);
  const islands = isOverlapping ? overlapping(autoIslands(1)) : autoIslands(1);
  const audit = { share: 0.5, isBounded: false };
  const run = runOf({ steps: 160, islands, audit, checkpointEverySteps: 20 + below(random, 60) });
  [run.chance, run.auditMs] = [seed, below(random, 300)];
  const stepMs = () => 5 + below(random, 60);
  for (const name of ['a', 'b', 'c']) run.join(name, stepMs());
  for (let event = 0; event < 600 && !run.isFinished; event++) {
    const one = run.here[below(random, run.here.length)];
    const luck = below(random, 100);
    if (luck === 0 && one !== undefined && run.here.length > 1) run.gone(one);
    else if (luck === 1) run.join(`x${event}`, stepMs());
    else if (luck === 2 && one !== undefined && run.here.length > 1) run.leave(one);
    else if (luck === 3 && one !== undefined) run.silent.add(one);
    else if (luck === 4) run.tell({ type: 'operatorSaid', command: below(random, 2) === 0 ? 'pause' : 'resume' });
    else if (luck === 5 && one !== undefined) run.slow(one, below(random, 3) === 0 ? 30_000 : stepMs());
    else if (luck === 6) run.uploadMs = below(random, 2) === 0 ? 1 : 2_000;
    else if (!run.advance()) break;
  }
  run.silent.clear();
  for (const peer of run.here) run.slow(peer, 20);
  run.tell({ type: 'operatorSaid', command: 'resume' });
  run.join('last', 10);
  run.finish();
  everyNumber(run);
}

it.each([false, true])(
  '[IS85] [IS65] whatever happens by chance: each step is done once, and the run ends (%s)',
  (isOverlapping) => {
    const seeds = process.env.SHOAL_LONG ? 400 : 4;
    for (let seed = 0; seed < seeds; seed++)
      try {
        chaos(seed, isOverlapping);
      } catch (error) {
        throw new Error(`seed ${seed}`, { cause: error });
      }
  },
);
