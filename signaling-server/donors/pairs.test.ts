import { describe, expect, test } from 'vitest';
import { type PeerId, peerId } from '../../swarm/base.ts';
import type { MeetMessage, StateSource } from '../../swarm/messages/messages.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { sparseIslands } from '../../swarm/testing/islands.ts';
import { lineOfThree, outlineModel } from '../../swarm/testing/randomPlan.ts';
import { Pairs } from './pairs.ts';
import { StateNeeds } from './stateNeeds.ts';

const [A, B, C, D] = [peerId('a'), peerId('b'), peerId('c'), peerId('d')];
/** Layers of 64 elements, an embedding of 60 and a head of 48; the stream is 4 wide. */
const MODEL = outlineModel(3, false);
/** 5 positions of 4 floats a sample, behind a header of 32 bytes. */
const FRAME_BYTES = 5 * 4 * 4 + 32;

const line = (one: PeerId, two: PeerId, three: PeerId): Plan => lineOfThree(MODEL, one, two, three);

function pairs() {
  const pairs = new Pairs({ model: MODEL, sequence: 5, wire: 'f32', asked: 'f32', rounds: 2 });
  const told = (to: PeerId, message: Parameters<Pairs['told']>[1]) => pairs.told(to, message, 0);
  return {
    pairs,
    told,
    prepare: (epoch: number, plan: Plan, source: StateSource) => {
      for (const to of [A, B, C, D]) told(to, { type: 'prepare', epoch, generation: 0, step: 0, source, plan });
    },
    start: (epoch: number, step: number, type: 'start' | 'evaluate' = 'start') => {
      for (const to of [A, B, C, D]) told(to, { type, epoch, step });
    },
    /** So many frames of a stream are carried at most. */
    frames: (from: PeerId, to: PeerId): number => {
      for (let count = 0; ; count++) if (!pairs.take(from, to, FRAME_BYTES)) return count;
    },
  };
}

describe('Pairs', () => {
  test('[WP22] partners alone reach each other, and nobody before there is a plan', () => {
    const { pairs: of, prepare } = pairs();
    expect(of.maySignal(A, B, 100, 0)).toBe(false);
    prepare(1, line(A, B, C), { from: 'checkpoint', step: 0 });
    const reached = [A, B, C, D].flatMap((from) =>
      [A, B, C, D].filter((to) => of.isPair(from, to) && of.maySignal(from, to, 100, 0)).map((to) => `${from}${to}`),
    );
    expect(reached).toEqual(['ab', 'ba', 'bc', 'cb']);
  });

  test('[WP22] those of the plan before, until the first step', () => {
    const { pairs: of, prepare, start, told } = pairs();
    prepare(1, line(A, B, C), { from: 'checkpoint', step: 0 });
    start(1, 0);
    prepare(2, line(A, B, D), { from: 'peers', epoch: 1, plan: line(A, B, C) });
    expect([of.isPair(B, C), of.isPair(C, D), of.isPair(B, D), of.isPair(A, D)]).toEqual([true, true, true, false]);
    start(2, 1);
    expect([of.isPair(B, C), of.isPair(C, D), of.isPair(B, D)]).toEqual([false, false, true]);
    told(D, { type: 'standby', state: 'finished' }); // questions still go from stage to stage
    expect(of.isPair(B, D)).toBe(true);
    told(D, { type: 'standby', state: 'spare' });
    expect(of.isPair(B, D)).toBe(false);
  });

  test('[WP43] carries what a step sends, once, and what of it was not sent yet', () => {
    const { prepare, start, frames } = pairs();
    prepare(1, line(A, B, C), { from: 'checkpoint', step: 0 });
    expect(frames(A, B)).toBe(0);
    start(1, 0);
    expect([frames(A, B), frames(A, B), frames(A, C), frames(C, A)]).toEqual([1, 0, 0, 0]);
    start(1, 1);
    start(1, 2);
    start(1, 3);
    expect([frames(A, B), frames(B, A)]).toEqual([2, 2]); // one step's may be late
    start(1, 4, 'evaluate');
    expect([frames(A, B), frames(B, A)]).toEqual([2, 0]); // two rounds, forward alone
  });

  test('[WP43] carries the stream of a piece that was asked for, beside what a step sends', () => {
    const { prepare, start, told, frames } = pairs();
    prepare(1, line(A, B, C), { from: 'checkpoint', step: 0 });
    start(1, 0);
    const step = frames(A, B);
    expect(frames(A, B)).toBe(0);
    const part = { conversation: 1, at: 0, rows: 5, ids: [1, 2, 3, 4, 5], draw: null };
    const piece = { type: 'answer' as const, epoch: 1, piece: 1, stage: 0, from: null, ended: [] };
    told(A, { ...piece, to: B, parts: [part, { ...part, conversation: 2 }] });
    told(C, { ...piece, to: null, parts: [part] });
    // Ten rows of four floats behind one header are fewer bytes than two frames of five rows.
    expect([frames(A, B), frames(B, A), step > 0]).toEqual([1, step, true]);
  });

  test('[WP43] carries the state that changes hands', () => {
    const { pairs: of, prepare, start } = pairs();
    prepare(1, line(A, B, C), { from: 'checkpoint', step: 0 });
    start(1, 0);
    prepare(2, line(A, B, D), { from: 'peers', epoch: 1, plan: line(A, B, C) });
    // Layer 2 and the head, value and both moments of each: six tensors.
    const bytes = 3 * 4 * (64 + 48) + 6 * 32;
    expect([of.take(C, D, bytes), of.take(C, D, 1), of.take(D, C, 1)]).toEqual([true, false, false]);
  });

  test('[WP42] two who are asked to measure their link may signal for a while, and relay nothing', () => {
    const { pairs: of } = pairs();
    of.told(A, { type: 'probe', peer: D, epoch: 0 }, 1_000);
    expect([of.maySignal(A, D, 100, 1_000), of.maySignal(D, A, 100, 90_999), of.maySignal(D, A, 100, 91_000)]).toEqual([
      ...[true, true, false],
    ]);
    expect(of.take(A, D, 1)).toBe(false);
  });

  test('[WP42] who signals without end is not passed on', () => {
    const { pairs: of, prepare } = pairs();
    prepare(1, line(A, B, C), { from: 'checkpoint', step: 0 });
    const passed = (atMs: number) => Array.from({ length: 1_000 }, () => of.maySignal(A, B, 100, atMs)).filter(Boolean);
    expect(passed(0)).toHaveLength(256);
    expect(passed(10_000)).toHaveLength(80);
    expect(of.maySignal(B, A, 100, 10_000)).toBe(true);
    const long = Array.from({ length: 100 }, () => of.maySignal(B, A, 16_000, 100_000)).filter(Boolean);
    expect(long).toHaveLength(256 / 16);
  });
});

test('[WP44] a donor reads what its plan has it hold, of that checkpoint, four times over, until the first step', () => {
  const needs = new StateNeeds({ model: MODEL });
  const prepare = (epoch: number) =>
    ({
      type: 'prepare',
      ...{ epoch, generation: 0, step: 4, plan: line(A, B, C) },
      source: { from: 'checkpoint', step: 4 },
    }) as const;
  const read = (peer: PeerId, part: Partial<Parameters<StateNeeds['mayRead']>[1]> = {}) =>
    needs.mayRead(peer, { checkpoint: 4, block: 'layer.1', kind: 'm', range: [0, 64], ...part });
  expect(read(B)).toBe(false);
  for (const to of [A, B, C, D]) needs.told(to, prepare(1));
  expect([A, B, C, D].map((peer) => read(peer))).toEqual([false, true, false, false]);
  expect([read(B, { checkpoint: 3 }), read(B, { block: 'head' }), read(B, { range: [0, 65] })]).not.toContain(true);
  // Of 3 · 64 elements each once is read by now; four times all of them are 12 such parts.
  expect(Array.from({ length: 20 }, () => read(B)).filter(Boolean)).toHaveLength(11);
  needs.told(B, prepare(2));
  expect(read(B)).toBe(true);
  needs.told(B, { type: 'start', epoch: 2, step: 4 });
  expect(read(B)).toBe(false);
});

test('[IS117] who is in no plan goes on reaching those whom it meets, until it pauses or leaves', () => {
  const sizes = { sequence: 5, wire: 'f32', asked: 'f32', rounds: 2, islands: sparseIslands(1) } as const;
  const of = new Pairs({ model: MODEL, ...sizes });
  const owner = { block: 'layer.1', range: [0, 32] as const, have: [D], keep: [D] };
  const state = line(A, B, C).state as MeetMessage['groups'][number]['state'];
  const groups = [{ epoch: 1, islands: [0], state }];
  const meet: MeetMessage = {
    type: 'meet',
    epoch: 0,
    round: 0,
    attempt: 1,
    steps: [1],
    groups,
    owners: { ranges: [owner] },
  };
  of.told(D, meet, 0);
  const others = of.reached(D);
  expect(others.length).toBeGreaterThan(0);
  of.told(D, { type: 'standby', state: 'spare', why: 'noGain' }, 0);
  expect(of.reached(D)).toEqual(others);
  of.told(D, { type: 'standby', state: 'paused' }, 0);
  expect(of.reached(D)).toEqual([]);
});

test('[IS115] who is to own what nobody has may read just that, a few times over, until the meeting is over or another begins', () => {
  const needs = new StateNeeds({ model: MODEL });
  const range = (block: string, have: PeerId[], keep: PeerId[]) => ({
    ...{ block, range: [0, 32] as const, have, keep },
  });
  const meet = (attempt: number, checkpoint?: number): MeetMessage => ({
    ...{ type: 'meet', epoch: 1, round: 0, attempt, steps: [1], groups: [] },
    owners: {
      ranges: [range('layer.1', [], [A, B]), range('layer.2', [C], [A, B])],
      ...(checkpoint !== undefined && { checkpoint }),
    },
  });
  const read = (peer: PeerId, part: Partial<Parameters<StateNeeds['mayRead']>[1]> = {}) =>
    needs.mayRead(peer, { checkpoint: 4, block: 'layer.1', kind: 'shared', range: [0, 32], ...part });
  const tell = (message: Parameters<StateNeeds['told']>[1]) => {
    for (const to of [A, C]) needs.told(to, message);
  };
  expect(read(A)).toBe(false);
  tell(meet(0));
  expect(read(A)).toBe(false);
  tell(meet(1, 4));
  expect([read(A), read(C), read(A, { kind: 'value' }), read(A, { kind: 'velocity', range: [8, 16] })]).toEqual([
    ...[true, false, true, true],
  ]);
  const wrong = [
    { checkpoint: 3 },
    { block: 'layer.2' },
    { range: [0, 33] },
    { kind: 'published' },
    { kind: 'm' },
  ] as const;
  expect(wrong.map((part) => read(A, part))).not.toContain(true);
  // Four times three kinds of 32 elements, of which two and a quarter are read.
  expect(Array.from({ length: 20 }, () => read(A)).filter(Boolean)).toHaveLength(9);
  tell(meet(2, 5));
  expect([read(A), read(A, { checkpoint: 5 })]).toEqual([false, true]);
  tell({ type: 'start', epoch: 1, step: 4 }); // beside the next round
  expect(read(A, { checkpoint: 5 })).toBe(true);
  tell({ type: 'standby', state: 'spare', why: 'noGain' }); // it is in no plan, and owns all the same
  expect(read(A, { checkpoint: 5 })).toBe(true);
  tell({ type: 'meetingOver', epoch: 1, round: 0 });
  expect(read(A, { checkpoint: 5 })).toBe(false);
});
