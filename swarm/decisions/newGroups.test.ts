import { describe, expect, it } from 'vitest';
import type { Groups } from '../autoplan/groupsAnew.ts';
import { arrayOf, peerId, success } from '../base.ts';
import { NO_LIMITS } from '../limits.ts';
import type { Profile } from '../messages/profile.ts';
import { autoIslands, overlapping } from '../testing/islands.ts';
import { RecordedRun } from '../testing/recordedRun.ts';
import { decisionConfig, rehearsalTerms } from '../testing/rehearsalTerms.ts';

const runOf = (part: Parameters<typeof rehearsalTerms>[0]) =>
  new RecordedRun(decisionConfig(rehearsalTerms({ layers: 2, ...part }).config, { replicas: 0 }));

function three(part: Parameters<typeof rehearsalTerms>[0] = {}) {
  const run = runOf({ steps: 200, islands: autoIslands(1), expectedDonors: 3, checkpointEverySteps: 200, ...part });
  for (const [name, stepMs] of [
    ['a', 10],
    ['b', 20],
    ['c', 30],
  ] as const)
    run.join(name, stepMs);
  return run;
}

/** Each once, whoever did them, and nothing was given up. */
function expectEach(run: RecordedRun) {
  const { steps } = run.config.run;
  expect(run.commits.map(({ number }) => number).toSorted((a, b) => a - b)).toEqual(arrayOf(steps, (number) => number));
  expect(run.lines.filter((line) => /^(back|refuse)/.test(line))).toEqual([]);
}

const epochs = (run: RecordedRun) => run.lines.filter((line) => line.startsWith('epoch'));
const donorsOf = (run: RecordedRun, island: number) => [
  ...new Set(run.commits.flatMap((one) => (one.island === island ? one.ledger.map(({ peer }) => peer) : []))),
];

describe('groups that are made anew at meetings', () => {
  it.each([false, true])(
    'a newcomer has an island of its own, with the next number, from the round after a meeting (overlap: %s)',
    (isOverlapping) => {
      const run = three({ islands: isOverlapping ? overlapping(autoIslands(1)) : autoIslands(1) });
      while (run.commits.length < 50) run.advance();
      const met = run.meetings.length;
      run.join('d', 10);
      run.finish();
      expectEach(run);
      expect(epochs(run)).toEqual(['epoch 0: a', 'epoch 1: b', 'epoch 2: c', 'epoch 3: d']);
      expect(donorsOf(run, 3)).toEqual(['d']);
      const first = run.commits.find(({ island }) => island === 3);
      expect(first?.round).toBeGreaterThanOrEqual(met);
      expect(first?.round).toBeLessThanOrEqual(met + 2);
      // It begins at what that meeting came to: that was saved, and nobody waited for it.
      expect(run.lines.filter((line) => line.startsWith('checkpoint'))).toHaveLength(2);
    },
  );

  it('where what the meeting came to is not saved before the next one, all wait for it there', () => {
    const run = three();
    run.uploadMs = 900;
    while (run.commits.length < 50) run.advance();
    run.join('d', 10);
    run.finish();
    expectEach(run);
    expect(donorsOf(run, 3)).toEqual(['d']);
  });

  it('an island that lost a member: the others of it begin a new one', () => {
    const run = three({ expectedDonors: 4 });
    run.join('d', 30);
    while (run.commits.length < 30) run.advance();
    run.gone('b');
    run.gone('c');
    run.join('e', 20);
    run.finish();
    expectEach(run);
    expect(donorsOf(run, 4)).toEqual(['e']);
  });

  it('a donor that goes, alone on its island: that ends at the meeting, with all that it did, and nobody waits', () => {
    const run = three();
    while (run.commits.length < 50) run.advance();
    const island = 1;
    run.leave('b');
    while (run.here.includes(peerId('b'))) run.advance();
    const done = run.commits.filter((one) => one.island === island).length;
    run.finish();
    expectEach(run);
    expect(run.commits.filter((one) => one.island === island)).toHaveLength(done);
    expect(run.lines.filter((line) => line.startsWith('island'))).toEqual([]);
    expect(run.lines.filter((line) => line.startsWith('checkpoint'))).toEqual(['checkpoint 200']);
  });
});

describe('a late island', () => {
  it('[IS85] is left out of one meeting: its steps are done by others, and its donor begins a new island', () => {
    const run = three();
    while (run.commits.length < 80) run.advance();
    run.slow('c', 25_000);
    const before = run.meetings.length;
    while (run.lines.every((line) => !line.startsWith('island'))) run.advance();
    const since = run.meetings.length;
    expect(since - before).toBeLessThanOrEqual(1);
    run.slow('c', 30);
    run.finish();
    expectEach(run);
    expect(run.lines.filter((line) => line.startsWith('island'))).toEqual(['island 2 has ended']);
    expect(donorsOf(run, 3)).toEqual(['c']);
    expect([...new Set(epochs(run))]).toEqual(['epoch 0: a', 'epoch 1: b', 'epoch 2: c', 'epoch 3: c']);
  });

  it('[IS85] who is late by less than a grace is waited for', () => {
    const run = three();
    while (run.commits.length < 80) run.advance();
    run.slow('c', 9_000);
    const before = run.meetings.length;
    while (run.meetings.length < before + 2) run.advance();
    run.slow('c', 30);
    run.finish();
    expectEach(run);
    expect(run.lines.filter((line) => line.startsWith('island'))).toEqual([]);
  });
});

/** Measured so; the model takes `bytes` of its memory. */
const measured = (layerSeconds: number, memoryBytes: number): Profile => ({
  layers: [
    { samples: 1, forwardSeconds: layerSeconds / 3, backwardSeconds: (2 * layerSeconds) / 3 },
    { samples: 2, forwardSeconds: (2 * layerSeconds) / 3, backwardSeconds: (4 * layerSeconds) / 3 },
  ],
  memoryBytes,
  checkedKernels: 0,
});

describe('by what the planner finds', () => {
  /** What the model takes of one donor alone is 62,860 bytes; of two with a stage each, less than this. */
  const SMALL = 50_000;

  function two() {
    const islands = autoIslands(1);
    const { config } = rehearsalTerms({ layers: 2, steps: 60, islands, expectedDonors: 2, checkpointEverySteps: 200 });
    const { run: own, planning } = decisionConfig(config, { auto: true, replicas: 0 });
    const run = new RecordedRun({ run: own, planning: { ...planning, batch: { ...planning.batch, islands } } });
    for (const name of ['a', 'b']) run.join(name, 20, measured(0.001, 1e9));
    while (run.commits.length < 10) run.advance();
    return run;
  }

  it('two donors without room for the model make an island together; what others have changes by nothing', () => {
    const run = two();
    for (const name of ['c', 'd']) run.join(name, 20, measured(0.001, SMALL));
    run.finish();
    expectEach(run);
    expect(epochs(run).map((line) => line.replace('d c', 'c d'))).toEqual(['epoch 0: a', 'epoch 1: b', 'epoch 2: c d']);
    expect(donorsOf(run, 2).toSorted()).toEqual(['c', 'd']);
  });

  it.each(['c', 'd'])(
    '[IS85] both donors of an island are killed while it meets, %s first: it is met without what they did, and others do that',
    (first) => {
      const run = two();
      for (const name of ['c', 'd']) run.join(name, 20, measured(0.001, SMALL));
      const ofIsland = () => run.commits.filter(({ island }) => island === 2);
      while (new Set(ofIsland().map(({ round }) => round)).size < 3) run.advance();
      const kept = ofIsland().filter(({ round }) => round < (ofIsland().at(-1)?.round ?? 0));
      for (const name of ['c', 'd']) run.silent.add(peerId(name));
      while (run.state.apart.meetings.current === null) run.advance();
      const [met, undone] = [run.meetings.length, ofIsland().slice(kept.length)];
      expect(undone.length).toBeGreaterThan(0);
      run.gone(first);
      run.gone(first === 'c' ? 'd' : 'c');
      expect(ofIsland()).toEqual(kept);
      while (run.meetings.length === met) run.advance();
      // That meeting is over, of those who are left.
      expect(run.commits.every(({ number }) => !undone.some((one) => one.number === number))).toBe(true);
      run.finish();
      expectEach(run);
      expect(ofIsland()).toEqual(kept);
      expect(run.lines.filter((line) => line.startsWith('island'))).toEqual(['island 2 has ended']);
      const others = epochs(run).filter((line) => /[ab]$/.test(line));
      expect(others).toEqual(['epoch 0: a', 'epoch 1: b']);
    },
  );

  it('one without room is taken into a group, where it is of use there', () => {
    const run = two();
    run.join('c', 20, measured(0.001, SMALL));
    run.finish();
    expectEach(run);
    expect(run.lines.filter((line) => line.startsWith('island'))).toEqual([]);
    const group = run.state.groups.find(({ coordinator }) => coordinator.donors.some(({ peer }) => peer === 'c'));
    expect(group?.coordinator.donors.find(({ peer }) => peer === 'c')?.isApart).toBeUndefined();
  });

  /** Three of a group each; others are found that are so many times as fast. */
  function found(best: Groups, gain: number, costSeconds = 0) {
    const run = runOf({ steps: 120, islands: autoIslands(1), expectedDonors: 3, checkpointEverySteps: 200 });
    run.find = (_config, { standing }) =>
      success({ kept: { groups: standing, stepSeconds: gain }, best: { groups: best, stepSeconds: 1 }, costSeconds });
    for (const name of ['a', 'b', 'c']) run.join(name, 20, measured(0.001, 1e9));
    run.finish();
    expectEach(run);
    return run;
  }
  const group = (...names: string[]) => names.map(peerId);

  it('where other groups do enough more an island ends after a meeting, with all that it did, and its donor goes there', () => {
    const run = found([group('a'), group('b', 'c')], 1.2);
    expect(epochs(run)).toEqual(['epoch 0: a', 'epoch 1: b', 'epoch 2: c', 'epoch 1: b c']);
    const rounds = [...new Set(run.commits.flatMap(({ island, round }) => (island === 2 ? round : [])))];
    expect(Math.max(...rounds)).toBeLessThan(5);
    // Nothing of it was undone, nor saved for anybody.
    expect(run.lines.filter((line) => /^(island|checkpoint)/.test(line))).toEqual(['checkpoint 120']);
  });

  it('of groups that come together the largest goes on as it is, with its plan until the others are warm', () => {
    const run = found([group('a', 'b'), group('c')], 1.2);
    expect(epochs(run)).toEqual(['epoch 0: a', 'epoch 1: b', 'epoch 2: c', 'epoch 0: a b']);
  });

  it('what gains little, or does not pay for the change in the steps that are left, changes nothing', () => {
    for (const run of [found([group('a'), group('b', 'c')], 1.04), found([group('a'), group('b', 'c')], 1.2, 21)])
      expect(epochs(run)).toEqual(['epoch 0: a', 'epoch 1: b', 'epoch 2: c']);
  });

  /** Three alone at first. Where one of them gives this part of its speed, the others are to go together. */
  function drifting(speed: number) {
    const run = runOf({ steps: 200, islands: autoIslands(1), expectedDonors: 3, checkpointEverySteps: 200 });
    const speeds: (number | undefined)[] = [];
    run.find = (_config, { problem, standing }) => {
      speeds.push(problem.shares.c);
      const best = problem.shares.c === undefined ? standing : [group('a'), group('b', 'c')];
      return success({
        kept: { groups: standing, stepSeconds: 1.2 },
        best: { groups: best, stepSeconds: 1 },
        costSeconds: 0,
      });
    };
    for (const name of ['a', 'b', 'c']) run.join(name, 20, measured(0.001, 1e9));
    while (run.commits.length < 50) run.advance();
    const before = speeds.length;
    run.tell({ type: 'donorSaid', peer: peerId('c'), message: { type: 'limits', limits: { ...NO_LIMITS, speed } } });
    run.finish();
    expectEach(run);
    return { after: speeds.slice(before), epochs: epochs(run) };
  }

  it('a donor that is less than 1 / 1.5 as fast as when groups were sought: they are sought again after a meeting, once', () => {
    const { after, epochs } = drifting(0.6);
    expect(after[0]).toBe(0.6);
    expect(epochs.at(-1)).toBe('epoch 1: b c');
    // Before the change, and for those who are left after it.
    expect(after.length).toBeLessThanOrEqual(2);
  });

  it('one that is a little slower changes nothing, and nothing is sought', () => {
    const { after, epochs } = drifting(0.7);
    expect(after).toEqual([]);
    expect(new Set(epochs)).toEqual(new Set(['epoch 0: a', 'epoch 1: b', 'epoch 2: c']));
  });
});
