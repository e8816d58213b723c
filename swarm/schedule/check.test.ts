import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { peerId, seededRandom } from '../base.ts';
import { peers } from '../plan/plan.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { outlineModel, randomPlan } from '../testing/randomPlan.ts';
import { formatSchedule, parseSchedule } from '../testing/scheduleText.ts';
import { type Action, formatAction } from './action.ts';
import { scheduleProblems } from './check.ts';
import { build, forwardOnly, stepSchedule } from './lower.ts';

const [a, b] = [peerId('a'), peerId('b')];
const model = outlineModel(2, true);
const plan = equalSplit(model, 2, [a, b], { microBatches: 2 });
const found = (text: string) =>
  scheduleProblems(model, plan, parseSchedule(text)).map((problem) => `${problem.rule} ${problem.text}`);

describe('scheduleProblems', () => {
  test('any order that can run is good, not only what a builder of ours writes', () => {
    expect(found('a: 0F0 0F1 0B0 0B1\nb: 1F0 1B0 1F1 1B1')).toEqual([]);
    expect(found('a: 0F1 0F0 0B0 0B1\nb: 1F1 1F0 1R0 1B0 1B1')).toEqual([]);
  });

  test.each([
    ['[SC2] missing work', 'a: 0F0 0F1 0B0\nb: 1F0 1F1 1B0 1B1', 'SC2 0B1 is missing from the list of a'],
    ['[SC2] a missing peer', 'a: 0F0 0F1 0B0 0B1', 'SC2 1F0 is missing from the list of b'],
    ['[SC2] doubled work', 'a: 0F0 0F0 0F1 0B0 0B1\nb: 1F0 1F1 1B0 1B1', 'SC2 0F0 is more than once in the list of a'],
    [
      '[SC2] unknown work',
      'a: 0F0 0F1 0B0 0B1 2F0\nb: 1F0 1F1 1B0 1B1',
      'SC2 2F0 in the list of a is no work of this plan',
    ],
    [
      '[SC2] another peer',
      'a: 0F0 0F1 0B0 0B1 1F0\nb: 1F1 1B0 1B1',
      'SC2 1F0 is in the list of a, but it is work of b',
    ],
    [
      '[SC2] another peer recomputes',
      'a: 0F0 0F1 0B0 0B1 1R0\nb: 1F0 1F1 1B0 1B1',
      'SC2 1R0 is in the list of a, but it is work of b',
    ],
    [
      '[SC2] an unknown peer',
      'a: 0F0 0F1 0B0 0B1\nb: 1F0 1F1 1B0 1B1\nz: 0F0',
      'SC2 0F0 is in the list of z, but it is work of a',
    ],
    [
      '[SC5] a missing transfer',
      'a: 0F0 0SEND_F0 0F1 0B0 0B1\nb: 1RECV_F0 1F0 1F1 1B0 1B1',
      'SC5 0SEND_F1 is missing from the list of a',
    ],
    [
      '[SC6] a missing reduce',
      'a: 0F0 0F1 0B0 0B1\nb: 1F0 1F1 1B0 1B1 1REDUCE REPORT COMMIT UPDATE SEND_V 1GATHER',
      'SC6 0REDUCE is missing from the list of a',
    ],
    [
      '[SC20] a missing report',
      'a: 0F0 0F1 0B0 0B1 0REDUCE COMMIT UPDATE SEND_V 0GATHER\nb: 1F0 1F1 1B0 1B1 1REDUCE REPORT COMMIT UPDATE SEND_V 1GATHER',
      'SC20 REPORT is missing from the list of a',
    ],
    [
      '[SC8] values that nobody sends',
      'a: 0F0 0F1 0B0 0B1 0REDUCE REPORT COMMIT UPDATE 0GATHER\nb: 1F0 1F1 1B0 1B1 1REDUCE REPORT COMMIT UPDATE SEND_V 1GATHER',
      'SC8 SEND_V is missing from the list of a',
    ],
  ])('%s is reported', (_, text, sentence) => {
    expect(found(text).map((problem) => problem.split(':\n')[0])).toContain(sentence);
  });

  test('[SC2] the list is shown with the place', () => {
    expect(found('a: 0F0 0F0 0F1 0B0 0B1\nb: 1F0 1F1 1B0 1B1')[0]).toContain('\na: 0F0 [0F0] 0F1 0B0 0B1  again');
    expect(found('a: 0F0 0F1 0B0 0B1 1F0\nb: 1F1 1B0 1B1').map((problem) => problem.split('\n')[1])).toEqual([
      'a: 0F0 0F1 0B0 0B1 [1F0]  b',
      'b: 1F1 1B0 1B1  ends without 1F0',
    ]);
    expect(found('a: 0F0 0F1 0B0 0B1')[0]).toContain('\nb:   ends without 1F0');
  });

  test('[SC9] a deadlock is shown with the place where each list is stuck', () => {
    expect(found('a: 0F0 0B0 0F1 0B1\nb: 1F0 1F1 1B0 1B1')).toEqual([
      [
        'SC9 peers wait for each other:',
        'a: 0F0 [0B0] 0F1 0B1  waits for 1B0 of b',
        'b: 1F0 [1F1] 1B0 1B1  waits for 0F1 of a',
      ].join('\n'),
    ]);
  });

  test('[SC9] [SC20] an update before its commit never comes, whoever waits for it', () => {
    const state = 'UPDATE REPORT COMMIT SEND_V';
    expect(
      found(
        `a: 0F0 0F1 0B0 0B1 0REDUCE ${state} 0GATHER\nb: 1F0 1F1 1B0 1B1 1REDUCE REPORT COMMIT UPDATE SEND_V 1GATHER`,
      ),
    ).toEqual([
      [
        'SC9 peers wait for each other:',
        'a: 0F0 0F1 0B0 0B1 0REDUCE [UPDATE] REPORT COMMIT SEND_V 0GATHER  waits for COMMIT of a',
        'b: 1F0 1F1 1B0 1B1 1REDUCE REPORT [COMMIT] UPDATE SEND_V 1GATHER  waits for REPORT of a',
      ].join('\n'),
    ]);
  });

  test('[SC9] a list in an impossible order waits for itself', () => {
    expect(found('a: 0B0 0F0 0F1 0B1\nb: 1F0 1F1 1B0 1B1')[0]).toContain('a: [0B0] 0F0 0F1 0B1  waits for 0F0 of a');
  });

  test('[SC2] an evaluation has forwards alone', () => {
    expect(scheduleProblems(model, plan, forwardOnly(plan), 'evaluation')).toEqual([]);
    expect(scheduleProblems(model, plan, forwardOnly(plan))).not.toEqual([]);
    expect(scheduleProblems(model, plan, stepSchedule(plan), 'evaluation')).not.toEqual([]);
  });

  test('[SC2]-[SC9] gpipe has none for random plans, before and after lowering', () => {
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        const { model, plan } = randomPlan(seededRandom(seed));
        expect(scheduleProblems(model, plan, build(plan))).toEqual([]);
        expect(scheduleProblems(model, plan, stepSchedule(plan))).toEqual([]);
        expect(scheduleProblems(model, plan, forwardOnly(plan), 'evaluation')).toEqual([]);
      }),
      { seed: 3, numRuns: 200 },
    );
  });

  test('[SC2]-[SC9] an action lost, doubled, misplaced or put too early is reported', () => {
    fc.assert(
      fc.property(fc.integer(), fc.constantFrom('lost', 'doubled', 'misplaced', 'early'), (seed, how) => {
        const random = seededRandom(seed);
        const { model, plan } = randomPlan(random);
        const lists = new Map([...stepSchedule(plan)].map(([peer, actions]) => [peer, [...actions]]));
        const owners = peers(plan).filter((peer) => (lists.get(peer)?.length ?? 0) > 0);
        const owner = owners[Math.floor(random() * owners.length)] ?? a;
        const list = lists.get(owner) ?? [];
        const index = Math.floor(random() * list.length);
        const action = list[index] as Action;
        if (how === 'doubled') list.push(action);
        else list.splice(index, 1);
        if (how === 'misplaced') lists.set(peerId('stranger'), [action]);
        // Before everything else only a first stage's forward is possible, and what waits for others alone.
        if (how === 'early') {
          fc.pre(action.op !== 'F' && action.op !== 'RECV_F' && action.op !== 'RECV_B');
          fc.pre(action.op !== 'REPORT' || list.some(({ op }) => op === 'REDUCE'));
          list.unshift(action);
        }
        expect(
          scheduleProblems(model, plan, lists),
          `${how} ${formatAction(action)}\n${formatSchedule(lists)}`,
        ).not.toEqual([]);
      }),
      { seed: 3, numRuns: 300 },
    );
  });
});
