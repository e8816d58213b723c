import { describe, expect, it } from 'vitest';
import { invariant, peerId } from '../base.ts';
import { GroupedRun, groupedConfig } from '../testing/groupedRun.ts';
import { islandsOf, overlapping } from '../testing/islands.ts';

/** Two islands, rounds of four steps, three of them. */
const ROUNDS = { ...{ steps: 12, islands: overlapping(islandsOf(2, 2)), checkpointEverySteps: 12 }, expectedDonors: 2 };

describe('rounds that overlap', () => {
  const overlapped = (part = {}, replicas = 0) => new GroupedRun(groupedConfig({ ...ROUNDS, ...part }, replicas));

  it('[IS80] the next one begins while the meeting is under way, and ends no sooner than that', () => {
    const run = overlapped();
    run.join('a', 'b');
    run.silent.add(peerId('b'));
    while (run.answerOne());
    // All of the second round, and nothing of the third.
    expect([...run.commits].toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(run.trace(/^met|meetingOver/)).toEqual([]);
    run.silent.clear();
    run.settle();
    expect(run.isFinished).toBe(true);
    expect(run.trace(/^(met|back)/)).toEqual(['met 4', 'met 8', 'met 12']);
  });

  it('[IS82] a meeting that something waits for is waited for by all: a checkpoint, an evaluation, the end', () => {
    const run = overlapped({ checkpointEverySteps: 8 });
    run.join('a', 'b');
    run.silent.add(peerId('b'));
    while (run.answerOne());
    run.silent.clear();
    while (run.trace(/^met 4/).length === 0) run.answerOne();
    run.silent.add(peerId('b'));
    while (run.answerOne());
    expect(run.commits.size).toBe(8);
    run.silent.clear();
    run.settle();
    expect(run.isFinished).toBe(true);
  });

  /** Two donors keep all of each island, of whose next round two steps stand; one does not meet yet. */
  function besideTwoSteps(replicas = 1, silent = 'd') {
    const run = overlapped({ expectedDonors: 4 }, replicas);
    run.join('a', 'b', 'c', 'd');
    run.silent.add(peerId(silent));
    while (run.commits.size < 6) run.answerOne();
    return run;
  }

  /** To the end, whatever has to be waited for. */
  function finish(run: GroupedRun) {
    for (let tries = 0; tries < 20 && !run.isFinished; tries++) {
      run.settle();
      if (!run.isFinished) run.expire();
    }
    expect(run.isFinished).toBe(true);
  }

  it.each(['a', 'b'])(
    '[IS83] %s is lost meanwhile: who has the other copy meets in its place, then another plan begins',
    (lost) => {
      const run = besideTwoSteps();
      run.lines.splice(0);
      run.gone(lost);
      run.expire();
      while (run.answerOne());
      const left = lost === 'a' ? 'b' : 'a';
      // It is met again without who is gone; those who are left begin no plan, the others end their round.
      expect(run.trace(/^(epoch|met|back|. < )/)).toEqual([`${left} < meet 0`, 'c < meet 0', 'd < meet 0']);
      run.silent.clear();
      finish(run);
      const lines = run.trace(/^(epoch|met|back|. < meetingOver)/);
      expect(lines.slice(0, 3)).toEqual(['met 4', `${left} < meetingOver 0`, `epoch 3 0: ${left}`]);
      expect(lines.filter((line) => line.startsWith('back'))).toEqual([]);
    },
  );

  it('[IS83] a step that fails meanwhile is done again when the meeting is over', () => {
    const run = besideTwoSteps();
    run.lines.splice(0);
    run.fails(peerId('a'));
    while (run.answerOne());
    expect(run.trace(/^(epoch|met|back)/)).toEqual([]);
    run.silent.clear();
    finish(run);
    expect(run.trace(/^(epoch|met|back)/)).toEqual(['met 4', 'epoch 3 0: a b', 'met 8', 'met 12']);
  });

  it.each(['nobody', 'b'])(
    '[CO50] [IS83] a step that is not finite meanwhile is done again with everyone looking, also where %s is lost then',
    (lost) => {
      const run = besideTwoSteps();
      const checked: string[] = [];
      run.answered = (to, message) => {
        if (message.type === 'prepare' && message.check) checked.push(`${to} looks in epoch ${message.epoch}`);
      };
      for (const name of ['a', 'b']) run.spoilt.add(peerId(name));
      while (run.answerOne());
      run.spoilt.clear();
      run.silent.clear();
      if (lost !== 'nobody') run.gone(lost);
      finish(run);
      const looking = lost === 'nobody' ? ['a', 'b'] : ['a'];
      expect(checked).toEqual(looking.map((name) => `${name} looks in epoch 3`));
    },
  );

  it('[IS83] one is lost when the meeting is over, and its group has not heard of that: who is left takes it in first', () => {
    const run = besideTwoSteps();
    // Both groups have a step in progress.
    run.silent.clear();
    while (run.trace(/^met 4/).length === 0) invariant(run.answerOne(), 'd meets');
    run.lines.splice(0);
    run.gone('b');
    expect(run.trace(/^(a < meetingOver|back)/)).toEqual(['a < meetingOver 0']);
    finish(run);
    expect(run.trace(/^back/)).toEqual([]);
  });

  it('[IS83] where nobody is left who has what an island ended its round with, all go back to the checkpoint', () => {
    const run = overlapped();
    run.join('a', 'b', 'c');
    run.silent.add(peerId('a'));
    while (run.commits.size < 6) run.answerOne();
    run.gone('b');
    run.silent.clear();
    run.settle();
    expect(run.isFinished).toBe(true);
    expect(run.trace(/^back/)).toEqual(['back from 6 to 0']);
  });

  it('[IS83] two of a group lose their link meanwhile: it is begun again, and nobody waits until it is late', () => {
    const run = overlapped({ expectedDonors: 4 }, 1);
    run.join('a', 'b', 'c', 'd');
    for (const name of ['a', 'b']) run.parted.add(peerId(name));
    run.settle();
    expect(run.isFinished).toBe(true);
    const lines = run.trace(/^(met|back|refuse|. < meet )/);
    expect(lines.slice(0, 9)).toEqual([
      ...['a', 'b', 'c', 'd'].map((name) => `${name} < meet 0`),
      ...['a < meet 0 through the server: b', 'b < meet 0 through the server: a', 'c < meet 0', 'd < meet 0'],
      'met 4',
    ]);
    expect(lines.filter((line) => !line.includes('<'))).toEqual(['met 4', 'met 8', 'met 12']);
  });

  it.each([
    ['is begun again where one of them has not met', 1, 'a', true],
    ['goes on where both have', 1, 'd', false],
    ['goes on where neither sends the other anything at it', 0, 'a', false],
  ])('[IS83] two of a group lose the link of a step meanwhile: the meeting %s', (_what, replicas, silent, isAgain) => {
    const run = besideTwoSteps(replicas, silent);
    run.lines.splice(0);
    run.fails(peerId('a'), peerId('b'));
    run.fails(peerId('b'), peerId('a'));
    const again = ['a < meet 0 through the server: b', 'b < meet 0 through the server: a', 'c < meet 0', 'd < meet 0'];
    expect(run.trace(/^(met|back|epoch|. < meet)/)).toEqual(isAgain ? again : []);
    run.silent.clear();
    finish(run);
    expect(run.trace(/^(met|back|refuse)/)).toEqual(['met 4', 'met 8', 'met 12']);
  });

  it('[IS80] a meeting that fails is begun again about the same, beside the steps', () => {
    const run = overlapped({ expectedDonors: 4 });
    run.join('a', 'b', 'c', 'd');
    for (const name of ['b', 'c']) run.parted.add(peerId(name));
    run.settle();
    expect(run.isFinished).toBe(true);
    expect(run.trace(/^(met|back|refuse)/)).toEqual(['met 4', 'met 8', 'met 12']);
  });
});
