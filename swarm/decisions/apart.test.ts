import { describe, expect, it } from 'vitest';
import { below, invariant, peerId, seededRandom } from '../base.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { GroupedRun, groupedConfig, TWO_GROUPS } from '../testing/groupedRun.ts';
import { islandsOf, overlapping } from '../testing/islands.ts';
import { SAMPLES } from '../testing/rehearsalTerms.ts';
import { snapshotOf, wholeRun } from './decide.ts';

const SHOWN = /^(epoch|commit|met|checkpoint|back|evaluation|refuse|. < )/;

/** Up to here with this many commits. */
function untilCommitted(run: GroupedRun, steps: number) {
  while (run.commits.size < steps) invariant(run.answerOne(), 'somebody answers');
}

describe('two groups of donors', () => {
  it('[IS51] [IS52] train islands of their own, meet after each round, and save together', () => {
    const run = new GroupedRun(groupedConfig({ ...TWO_GROUPS, steps: 8, evaluation: { everySteps: 4, windows: 4 } }));
    run.join('a', 'b');
    expect(run.groups).toEqual(['0: a', '1: b']);
    run.settle();
    expect(run.isFinished).toBe(true);
    expect(run.groups).toEqual(['all: a b']);
    expect(run.trace(SHOWN)).toEqual([
      ...['epoch 1 0: a', 'epoch 2 1: b', 'evaluation 0'],
      ...['commit 2', 'commit 0', 'commit 3', 'commit 1', 'a < meet 0', 'b < meet 0'],
      ...['met 4', 'a < meetingOver 0', 'b < meetingOver 0', 'evaluation 4', 'checkpoint 4'],
      ...['commit 6', 'commit 4', 'commit 7', 'commit 5', 'a < meet 1', 'b < meet 1'],
      ...['met 8', 'a < meetingOver 1', 'b < meetingOver 1', 'checkpoint 8', 'evaluation 8'],
    ]);
  });

  it('are as many as there are islands, or donors; both are shared out in order', () => {
    const run = new GroupedRun(groupedConfig({ steps: 6, islands: islandsOf(3, 1), expectedDonors: 5 }));
    run.join('a', 'b', 'c', 'd', 'e');
    expect(run.groups).toEqual(['0: a b', '1: c d', '2: e']);
    const few = new GroupedRun(groupedConfig({ steps: 6, islands: islandsOf(3, 1), expectedDonors: 2 }));
    few.join('a', 'b');
    expect(few.groups).toEqual(['0+1: a', '2: b']);
    few.settle();
    expect(few.trace(/^commit/)).toHaveLength(6);
    expect(few.isFinished).toBe(true);
    const wide = groupedConfig({ steps: 6, islands: islandsOf(3, 1), expectedDonors: 5 });
    const stages = { ...wide.planning, wishes: { ...wide.planning.wishes, stages: 2 } };
    const staged = new GroupedRun({ ...wide, planning: stages });
    staged.join('a', 'b', 'c', 'd', 'e');
    expect(staged.groups).toEqual(['0+1: a b c', '2: d e']);
    const alone = new GroupedRun(groupedConfig({ steps: 6, islands: islandsOf(3, 1) }));
    alone.join('a');
    expect(alone.groups).toEqual(['all: a']);
  });

  it('under plans that are given, each group has the islands and the donors of its own; with others they are shared out', () => {
    const { run: config, planning } = groupedConfig({ steps: 6, islands: islandsOf(3, 1), expectedDonors: 3 });
    const model = acceptedModel(planning);
    const planOf = (islands: readonly number[], ...names: string[]) => ({
      ...equalSplit(model, SAMPLES, names.map(peerId)),
      islands,
    });
    const groupPlans = [planOf([0, 2], 'x'), planOf([1], 'y', 'z')];
    const run = new GroupedRun({ run: config, planning: { ...planning, wishes: { groupPlans, replicas: 0 } } });
    run.join('a', 'b', 'c');
    expect(run.groups).toEqual(['0+2: a', '1: b c']);
    untilCommitted(run, 4);
    expect(run.trace(/^(epoch|met)/)).toEqual(['epoch 1 0+2: a', 'epoch 2 1: b c', 'met 3']);
    run.gone('c');
    expect(run.groups).toEqual(['0+1: a', '2: b']);
    run.settle();
    expect(run.isFinished).toBe(true);
  });

  it('the pages show each group, what it has and how far it is', () => {
    const run = new GroupedRun(groupedConfig({ steps: 8, islands: islandsOf(3, 1), expectedDonors: 2 }));
    run.join('a', 'b');
    const shown = (): unknown[] =>
      (snapshotOf(run.state, run.now).groups ?? []).map(({ donors, round, active, islands }) => [
        ...[donors.join(' '), round, active],
        islands.map(({ number, innerStep, innerSteps }) => `${number}: ${innerStep}/${innerSteps}`).join(', '),
      ]);
    const words = () => {
      const { phase, sentence } = snapshotOf(run.state, run.now);
      return [phase, sentence.replace('2 groups of donors have islands of their own. ', '')];
    };
    untilCommitted(run, 1);
    expect(shown()).toEqual([
      ['a', 0, 1, '0: 1/1, 1: 0/1'],
      ['b', 0, 2, '2: 0/1'],
    ]);
    expect(words()).toEqual(['training', 'Farthest behind: 1 donor is training island 3 in round 1, step 1 of 1.']);
    untilCommitted(run, 3);
    expect(shown()).toEqual([
      ['a', 0, null, '0: 1/1, 1: 1/1'],
      ['b', 0, null, '2: 1/1'],
    ]);
    expect(words()).toEqual(['training', 'The islands meet.']);
    // The last round is cut short: island 2 has nothing to do in it.
    untilCommitted(run, 7);
    expect(shown()[1]).toEqual(['b', 2, null, '2: 0/0']);
  });

  it('a newcomer goes where the fewest are, and no step is given up for it', () => {
    const run = new GroupedRun(groupedConfig(TWO_GROUPS));
    run.join('a', 'b');
    untilCommitted(run, 5);
    run.join('c');
    run.join('d');
    expect(run.groups).toEqual(['0: a c', '1: b d']);
    run.settle();
    expect(run.isFinished).toBe(true);
    expect(run.trace(/^(epoch|back)/)).toEqual(['epoch 1 0: a', 'epoch 2 1: b', 'epoch 3 0: a c', 'epoch 4 1: b d']);
  });

  it('[IS53] one that loses a donor whose state others have goes on by itself, and the other one with its steps', () => {
    const run = new GroupedRun(groupedConfig({ ...TWO_GROUPS, expectedDonors: 4 }, 1));
    run.join('a', 'b', 'c', 'd');
    expect(run.groups).toEqual(['0: a b', '1: c d']);
    untilCommitted(run, 5);
    run.gone('b');
    const before = run.commits.size;
    while (run.answerOne());
    // Group 1 does all of its round meanwhile.
    expect(run.commits.size).toBeGreaterThan(before);
    run.expire();
    run.settle();
    expect(run.isFinished).toBe(true);
    expect(run.trace(/^(back|refuse)/)).toEqual([]);
  });

  it('[IS53] one whose state is lost: all go back to the checkpoint, and are as many as there are donors', () => {
    const run = new GroupedRun(groupedConfig(TWO_GROUPS));
    run.join('a', 'b', 'c');
    untilCommitted(run, 6);
    expect(run.groups).toEqual(['0: a c', '1: b']);
    run.gone('b');
    expect(run.groups).toEqual(['0: a', '1: c']);
    untilCommitted(run, 7);
    run.gone('c');
    expect(run.groups).toEqual(['all: a']);
    run.settle();
    expect(run.isFinished).toBe(true);
    expect(run.trace(/^back/)).toEqual(['back from 6 to 4', 'back from 7 to 4']);
  });

  it('[IS53] one of which only who leaves is left: others do its islands from the checkpoint, and nobody waits for a newcomer', () => {
    const run = new GroupedRun(groupedConfig({ ...TWO_GROUPS, expectedDonors: 4 }, 1));
    run.join('a', 'b', 'c', 'd');
    untilCommitted(run, 5);
    run.tell({ type: 'donorSaid', peer: peerId('d'), message: { type: 'leave' } });
    run.gone('c');
    run.expire();
    run.settle();
    expect(run.isFinished).toBe(true);
    expect(run.trace(/^back/)).toHaveLength(1);
  });

  it('[IS52] a pause, and a donor that leaves alone, wait for the meeting and its checkpoint, and give nothing up', () => {
    const run = new GroupedRun(groupedConfig({ ...TWO_GROUPS, checkpointEverySteps: 12 }));
    run.join('a', 'b');
    untilCommitted(run, 1);
    run.tell({ type: 'operatorSaid', command: 'pause' });
    run.settle();
    expect(run.groups).toEqual(['all: a b']);
    expect(wholeRun(run.state).coordinator.phase.name).toBe('paused');
    run.tell({ type: 'operatorSaid', command: 'resume' });
    expect(run.groups).toEqual(['0: a', '1: b']);
    untilCommitted(run, 5);
    run.tell({ type: 'donorSaid', peer: peerId('b'), message: { type: 'leave' } });
    run.settle();
    expect(run.isFinished).toBe(true);
    expect(run.trace(/^(checkpoint|back)/)).toEqual(['checkpoint 4', 'checkpoint 8', 'checkpoint 12']);
  });
});

it('[IS52] where too much would be unsaved all wait at a meeting, and go on once all is saved', () => {
  const run = new GroupedRun(groupedConfig({ ...TWO_GROUPS, steps: 16 }));
  run.join('a', 'b');
  run.areUploadsSlow = true;
  run.settle();
  // A checkpoint is due after 4 steps, and as many again may be unsaved while it is on its way.
  expect(run.commits.size).toBe(8);
  run.areUploadsSlow = false;
  run.settle();
  expect(run.isFinished).toBe(true);
  expect(run.trace(/^back/)).toEqual([]);
});

/** Of all plays by chance, on a machine that does other things too. */
const TIMEOUT_MS = 600_000;

/** Donors that come, go, leave, fail, are slow to meet or say wrong things, in an order by chance; then nothing more goes wrong. */
function chaos(seed: number, isOverlapping = false) {
  const random = seededRandom(seed);
  const own = islandsOf(2, 1 + below(random, 3));
  const islands = isOverlapping ? overlapping(own) : own;
  const run = new GroupedRun(
    groupedConfig({ steps: 16, islands, checkpointEverySteps: 4, lanes: 3 }, below(random, 2)),
  );
  run.join('a', 'b', 'c');
  let named = 3;
  for (let event = 0; event < 150 && !run.isFinished; event++) {
    const here = wholeRun(run.state).coordinator.donors.map(({ peer }) => peer);
    const one = here[below(random, here.length)];
    const luck = below(random, 40);
    if (luck === 0 && one !== undefined && here.length > 1) run.gone(one);
    else if (luck === 1) run.join(`x${named++}`);
    else if (luck === 2 && one !== undefined && here.length > 1)
      run.tell({ type: 'donorSaid', peer: one, message: { type: 'leave' } });
    else if (luck === 3) run.tell({ type: 'operatorSaid', command: 'pause' });
    else if (luck === 4) run.tell({ type: 'operatorSaid', command: 'resume' });
    else if (luck === 5 && one !== undefined) run.silent.add(one);
    else if (luck === 6 && one !== undefined) run.lying.add(one);
    else if (luck === 7) run.areUploadsSlow = !run.areUploadsSlow;
    else if (luck === 8 && one !== undefined) run.fails(one);
    else if (luck === 9 && one !== undefined) run.fails(one, here[below(random, here.length)]);
    else if (luck < 12) run.expire();
    else if (!run.answerOne(random)) run.expire();
  }
  run.areUploadsSlow = false;
  run.silent.clear();
  run.lying.clear();
  run.tell({ type: 'operatorSaid', command: 'resume' });
  for (let tries = 0; tries < 200 && !run.isFinished; tries++) {
    // Who wants to go keeps what it has until another one comes.
    if (wholeRun(run.state).coordinator.donors.every(({ wish }) => wish !== 'compute')) run.join(`last${tries}`);
    run.settle(random);
    if (!run.isFinished) run.expire();
  }
  return run;
}

it('[IS53] whatever happens by chance: each step is committed once, and the run ends', { timeout: TIMEOUT_MS }, () => {
  const seeds = process.env.SHOAL_LONG ? 2_000 : 20;
  for (let seed = 0; seed < seeds; seed++) expect(chaos(seed).isFinished, `seed ${seed}`).toBe(true);
});

it('[IS80] [IS53] whatever happens by chance where rounds go on beside meetings: the same', {
  timeout: TIMEOUT_MS,
}, () => {
  const seeds = process.env.SHOAL_LONG ? 2_000 : 20;
  for (let seed = 0; seed < seeds; seed++) expect(chaos(seed, true).isFinished, `seed ${seed}`).toBe(true);
});
