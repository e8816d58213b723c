import { describe, expect, test } from 'vitest';
import { peerId } from '../base.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { outlineModel } from '../testing/randomPlan.ts';
import { parseAction, parseSchedule } from '../testing/scheduleText.ts';
import { type Action, formatAction, type Schedule } from './action.ts';
import { scheduleProblems } from './check.ts';
import { build, stepSchedule } from './lower.ts';
import { before, receiver, wiring } from './order.ts';

const [a, b, c] = [peerId('a'), peerId('b'), peerId('c')];
const model = outlineModel(3, true);
const plan = equalSplit(model, 2, [a, b, c], { microBatches: 2 });
const lowered = wiring(model, plan, stepSchedule(plan));
const bare = wiring(model, plan, build(plan));
const without = (schedule: Schedule, peer: typeof a, op: Action['op']): Schedule =>
  new Map([...schedule].map(([one, list]) => [one, one === peer ? list.filter((action) => action.op !== op) : list]));
const needs = (peer: typeof a, text: string, wires = lowered) =>
  before({ peer, action: parseAction(text) }, wires)
    .map((work) => `${work.peer} ${formatAction(work.action)}`)
    .join(', ');

describe('[SC4] before', () => {
  test('a forward needs its activation', () => {
    expect(needs(a, '0F0')).toBe('');
    expect(needs(b, '1F0')).toBe('b 1RECV_F0');
    expect(needs(b, '1F0', bare)).toBe('a 0F0');
  });

  test('a backward needs its forward and its gradient; the last stage has its own', () => {
    expect(needs(b, '1B1')).toBe('b 1F1, b 1RECV_B1');
    expect(needs(b, '1B1', bare)).toBe('b 1F1, c 2B1');
    expect(needs(c, '2B1')).toBe('c 2F1');
  });

  test('a backward needs its recompute where there is one', () => {
    const recomputed = wiring(model, plan, parseSchedule('c: 2F0 2R0 2B0'));
    expect(needs(c, '2R0', recomputed)).toBe('c 2F0');
    expect(needs(c, '2B0', recomputed)).toBe('c 2F0, c 2R0');
  });

  test('a receive needs its send, a send what it sends', () => {
    expect(needs(b, '1RECV_F0')).toBe('a 0SEND_F0');
    expect(needs(b, '1RECV_B0')).toBe('c 2SEND_B0');
    expect(needs(a, '0SEND_F0')).toBe('a 0F0');
    expect(needs(b, '1SEND_B0')).toBe('b 1B0');
    expect(receiver('SEND_F', 0, 0, lowered)).toBe(b);
    expect(receiver('SEND_B', 2, 0, lowered)).toBe(b);
  });

  test('[SC6] a reduce needs all backwards of its member', () => {
    expect(needs(b, '1REDUCE')).toBe('b 1B0, b 1B1');
  });

  test('[SC20] a report needs the gradients of all who compute with what its peer keeps; a tied embedding is in two stages', () => {
    expect(needs(b, 'REPORT')).toBe('b 1REDUCE');
    expect(needs(a, 'REPORT')).toBe('a 0REDUCE, c 2REDUCE');
    const untied = wiring(outlineModel(3, false), plan, stepSchedule(plan));
    expect(needs(a, 'REPORT', untied)).toBe('a 0REDUCE');
  });

  test('[SC20] a commit needs the reports of all who have losses or keep state, and its own', () => {
    expect(needs(b, 'COMMIT').split(', ').toSorted()).toEqual(['a REPORT', 'b REPORT', 'c REPORT']);
    // a keeps everything, c has the losses.
    const shards = plan.state.map(({ block, shards }) => ({
      block,
      shards: shards.map((shard) => ({ ...shard, peer: a })),
    }));
    const kept = { ...plan, state: shards };
    const wires = wiring(model, kept, stepSchedule(kept));
    expect(needs(a, 'COMMIT', wires).split(', ').toSorted()).toEqual(['a REPORT', 'c REPORT']);
    expect(needs(b, 'COMMIT', wires).split(', ').toSorted()).toEqual(['a REPORT', 'b REPORT', 'c REPORT']);
    expect(needs(a, 'REPORT', wires)).toBe('a 0REDUCE, b 1REDUCE, c 2REDUCE');
  });

  test('[SC7] an update needs the commit, as its peer has it', () => {
    expect(needs(b, 'UPDATE')).toBe('b COMMIT');
  });

  test('[SC7] [SC8] what ends a turn or a round comes between the update and the new values', () => {
    for (const end of ['SWITCH', 'MEET'] as const) {
      const schedule = stepSchedule(plan, end);
      const wires = wiring(model, plan, schedule);
      expect(needs(b, end, wires)).toBe('b UPDATE');
      expect(needs(b, 'SEND_V', wires)).toBe(`b ${end}`);
      expect(scheduleProblems(model, plan, schedule)).toEqual([]);
      const [first] = scheduleProblems(model, plan, without(schedule, b, end));
      expect(first?.text.split(':')[0]).toBe(`${end} is missing from the list of b`);
    }
  });

  test('[SC8] new values are sent after the update and gathered after that; a tied embedding comes from the first stage', () => {
    expect(needs(b, 'SEND_V')).toBe('b UPDATE');
    expect(needs(b, '1GATHER')).toBe('b COMMIT, b SEND_V');
    expect(needs(c, '2GATHER').split(', ').toSorted()).toEqual(['a SEND_V', 'c COMMIT', 'c SEND_V']);
    const untied = wiring(outlineModel(3, false), plan, stepSchedule(plan));
    expect(needs(c, '2GATHER', untied)).toBe('c COMMIT, c SEND_V');
  });
});
