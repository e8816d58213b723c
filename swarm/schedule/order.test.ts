import { describe, expect, test } from 'vitest';
import { peerId } from '../base.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { outlineModel } from '../testing/randomPlan.ts';
import { formatAction, parseAction, parseSchedule } from './action.ts';
import { build, stepSchedule } from './lower.ts';
import { before, receiver, wiring } from './order.ts';

const [a, b, c] = [peerId('a'), peerId('b'), peerId('c')];
const model = outlineModel(3, true);
const plan = equalSplit(model, 2, [a, b, c], { microBatches: 2 });
const lowered = wiring(model, plan, stepSchedule(plan));
const bare = wiring(model, plan, build(plan));
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

  test('[SC7] an update needs every reduce of the step', () => {
    expect(needs(b, '1UPDATE')).toBe('a 0REDUCE, b 1REDUCE, c 2REDUCE');
  });

  test('[SC8] a gather needs the updates of its blocks; a tied embedding is updated in the first stage', () => {
    expect(needs(b, '1GATHER')).toBe('b 1UPDATE');
    expect(new Set(needs(c, '2GATHER').split(', '))).toEqual(new Set(['a 0UPDATE', 'c 2UPDATE']));
    const untied = wiring(outlineModel(3, false), plan, stepSchedule(plan));
    expect(new Set(needs(c, '2GATHER', untied).split(', '))).toEqual(new Set(['c 2UPDATE']));
  });
});
