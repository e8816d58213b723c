import { expect, test } from 'vitest';
import { type PeerId, peerId } from '../../../swarm/base.ts';
import type { StateSource } from '../../../swarm/messages/messages.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import { islandsOf } from '../../../swarm/testing/islands.ts';
import { lineOfThree, outlineModel } from '../../../swarm/testing/randomPlan.ts';
import { Reach } from './reach.ts';

const [A, B, C, D] = [peerId('a'), peerId('b'), peerId('c'), peerId('d')];
const MODEL = outlineModel(3, false);

const line = (one: PeerId, two: PeerId, three: PeerId): Plan => lineOfThree(MODEL, one, two, three);

const prepare = (epoch: number, plan: Plan, source: StateSource) =>
  ({ type: 'prepare', epoch, generation: 0, step: 0, source, plan }) as const;

test('[WP46] partners are those of the plan that the server named last, and of one that may come', () => {
  const reach = new Reach(B, { model: MODEL, sequence: 5, wire: 'f32', asked: 'f32' });
  const told = (message: Parameters<Reach['told']>[0]) => {
    const partners = reach.told(message);
    return partners && [...partners].sort().join('');
  };
  const before = line(A, B, C);
  expect(told(prepare(1, before, { from: 'checkpoint', step: 0 }))).toBe('ac');
  expect(told({ type: 'start', epoch: 1, step: 0 })).toBe('ac');
  expect(told({ type: 'start', epoch: 1, step: 1 })).toBeNull();
  expect(told({ type: 'warm', number: 0, epoch: 2, step: 1, plan: line(A, B, D) })).toBe('acd');
  // The plan in force once more: those of the next one stay.
  expect(told(prepare(2, before, { from: 'kept' }))).toBe('acd');
  expect(told(prepare(3, line(A, B, D), { from: 'peers', epoch: 2, plan: before }))).toBe('acd');
  expect(told({ type: 'evaluate', epoch: 3, step: 1 })).toBe('ad');
  expect(told({ type: 'standby', state: 'finished' })).toBeNull(); // questions still go from stage to stage
  expect(told(prepare(4, line(A, D, C), { from: 'checkpoint', step: 0 }))).toBe('');
  expect(told({ type: 'standby', state: 'spare' })).toBe('');
});

test('[WP52] with a meeting come those in other groups who keep what this one keeps, until the next plan', () => {
  const islands = { ...islandsOf(2, 1), exchange: 'f32' as const };
  const reach = new Reach(B, { model: MODEL, sequence: 5, wire: 'f32', asked: 'f32', islands });
  const told = (message: Parameters<Reach['told']>[0]) => {
    const partners = reach.told(message);
    return partners && [...partners].sort().join('');
  };
  const own = { ...line(A, B, C), islands: [0] };
  const other = { ...line(D, D, D), islands: [1] };
  expect(told(prepare(1, own, { from: 'checkpoint', step: 0 }))).toBe('ac');
  expect(told({ type: 'start', epoch: 1, step: 0 })).toBe('ac');
  const groups = [own, other].map(({ islands, state }, place) => ({ epoch: place + 1, islands, state }));
  expect(told({ type: 'meet', epoch: 1, round: 0, attempt: 0, steps: [1, 1], groups })).toBe('acd');
  expect(told({ type: 'meetingOver', epoch: 1, round: 0 })).toBeNull();
  expect(told({ type: 'start', epoch: 1, step: 2 })).toBeNull();
  expect(told(prepare(3, own, { from: 'kept' }))).toBe('ac');
  // Who is in no plan may own something, but not who pauses.
  expect(told({ type: 'meet', epoch: 3, round: 1, attempt: 1, steps: [1, 1], groups })).toBe('acd');
  expect(told({ type: 'standby', state: 'spare' })).toBe('d');
  expect(told({ type: 'standby', state: 'paused' })).toBe('');
});
