import { expect, test } from 'vitest';
import { at, peerId, type Range } from '../../../swarm/base.ts';
import { turnAt } from '../../../swarm/islands/rounds.ts';
import { shardsOf } from '../../../swarm/memory/memory.ts';
import { blocksOfStage, type Model } from '../../../swarm/model/model.ts';
import { STATE_KINDS, type StateKind, savedKinds, stateKinds } from '../../../swarm/plan/stateKinds.ts';
import { equalSplit } from '../../../swarm/planner/equalSplit.ts';
import type { Islands, Train } from '../../../swarm/run/runFile.ts';
import { outlineModel } from '../../../swarm/testing/randomPlan.ts';
import type { Shards, Stage } from './engine.ts';
import { IslandShards } from './islandShards.ts';

const model = outlineModel(1, true);
const plan = equalSplit(model, 1, [peerId('a')]);
const kept = shardsOf(model, plan, peerId('a')).filter(({ block }) => block === 'head');
const RANGE = at(kept, 0).range;
const LENGTH = RANGE[1] - RANGE[0];

/** Three islands, two steps each: eleven steps are a whole round and one in which the last island has one step. */
const islands: Islands = {
  ...{ count: 3, innerSteps: 2, publish: 'f32', overlap: false },
  outer: { learningRate: 0.5, momentum: 0.25 },
  exchange: 'f32',
};
const train = { steps: 11, islands } as Train;

/** What a GPU has of the shard: its update adds what the step says. */
class OneState {
  readonly of: Record<string, Float32Array<ArrayBuffer>> = {
    ...{ value: filled(1), m: filled(0), v: filled(0) },
  };
  readonly shards = {
    bytes: 0,
    readState: async (_block: string, range: Range, kinds: readonly StateKind[]) => {
      const [from, to] = range.map((element) => element - RANGE[0]);
      return Float32Array.from(kinds.flatMap((kind) => [...(this.of[kind] ?? []).slice(from, to)]));
    },
    writeState: (_block: string, range: Range, kind: StateKind, values: Float32Array) =>
      this.of[kind]?.set(values, range[0] - RANGE[0]),
  } as unknown as Shards;

  /** Powers of two: sums of them are exact, and say who was added to whom. */
  update(step: number): void {
    for (const [place, kind] of STATE_KINDS.entries())
      this.of[kind] = Float32Array.from(this.of[kind] ?? [], (x) => x + 2 ** -step * (place + 1));
  }
}

const filled = (value: number) => new Float32Array(LENGTH).fill(value);

function opened(works = kept, stage?: Stage): { gpu: OneState; own: IslandShards } {
  const gpu = new OneState();
  const stages = new Map(stage ? [[0, stage]] : []);
  const uses = new Map([[0, blocksOfStage(model, [0, 1])]]);
  const own = new IslandShards(gpu.shards, { model, train, islands, own: undefined, kept: works, stages, uses });
  for (const kind of stateKinds(islands))
    if (!savedKinds(islands).includes(kind)) own.writeState('head', RANGE, kind, filled(1));
  return { gpu, own };
}

async function trained({ gpu, own }: ReturnType<typeof opened>, from: number, to: number): Promise<void> {
  for (let step = from; step < to; step++) {
    gpu.update(step);
    await own.stepDone(step);
  }
}

/** The same, told apart from the start: a list of islands, and what they share. */
function expected(steps: number): Record<string, number> {
  const apart = [0, 1, 2].map(() => ({ value: 1, m: 0, v: 0, steps: 0 }));
  let [shared, velocity] = [1, 0];
  let next = 0;
  for (let step = 0; step < steps; step++) {
    const { island, endsTurn, endsRound } = turnAt(train, step);
    const one = at(apart, island);
    one.value += 2 ** -step;
    one.m += 2 * 2 ** -step;
    one.v += 3 * 2 ** -step;
    one.steps++;
    next = endsRound ? 0 : endsTurn ? island + 1 : island;
    if (!endsRound) continue;
    const all = apart.reduce((sum, own) => sum + own.steps, 0);
    const mean = apart.reduce((sum, own) => sum + own.steps * (shared - own.value), 0) / all;
    velocity = 0.25 * velocity + mean;
    shared -= 0.5 * (mean + 0.25 * velocity);
    for (const own of apart) Object.assign(own, { value: shared, steps: 0 });
  }
  const kinds: Record<string, number> = { shared, velocity };
  for (const turn of [0, 1, 2]) {
    const { value, m, v } = at(apart, (next + turn) % 3);
    const end = turn === 0 ? '' : `@${turn}`;
    Object.assign(kinds, { [`value${end}`]: value, [`m${end}`]: m, [`v${end}`]: v });
  }
  return kinds;
}

test('[IS20] [IS21] [IS22] after any step a keeper has every island, the one whose turn it is first', async () => {
  const kinds = stateKinds(islands);
  for (let steps = 0; steps <= train.steps; steps++) {
    const keeper = opened();
    await trained(keeper, 0, steps);
    const state = await keeper.own.readState('head', RANGE, kinds);
    const wanted = expected(steps);
    for (const [place, kind] of kinds.entries())
      expect(state[place * LENGTH], `${kind} after ${steps}`).toBeCloseTo(wanted[kind] ?? Number.NaN, 5);
  }
});

test('[IS20] [HO1] who takes everything over in the middle of a round goes on to the same bits', async () => {
  const kinds = stateKinds(islands);
  const whole = opened();
  await trained(whole, 0, train.steps);
  const end = await whole.own.readState('head', RANGE, kinds);
  for (let step = 1; step < train.steps; step++) {
    const giver = opened();
    await trained(giver, 0, step);
    const given = await giver.own.readState('head', RANGE, kinds);
    const taker = opened();
    const middle = RANGE[0] + (LENGTH >> 1);
    for (const [place, kind] of kinds.entries())
      for (const [from, to] of [
        [RANGE[0], middle],
        [middle, RANGE[1]],
      ] as const) {
        const first = place * LENGTH + from - RANGE[0];
        taker.own.writeState('head', [from, to], kind, given.subarray(first, first + to - from));
      }
    await trained(taker, step, train.steps);
    expect(await taker.own.readState('head', RANGE, kinds), `taken over after ${step}`).toEqual(end);
  }
});

test('[IS21] a stage that computes in halves is written the next island’s values, beside their master', async () => {
  const written: number[] = [];
  const stage = {
    writeValues: (block: string, range: Range, values: Float32Array) => {
      expect([block, range, values.length]).toEqual(['head', RANGE, LENGTH]);
      written.push(at(values, 0));
    },
  } as unknown as Stage;
  const keeper = opened(
    kept.map((work) => ({ ...work, valuesStage: 0, master: 'own' as const })),
    stage,
  );
  await trained(keeper, 0, 6);
  const wanted = [2, 4, 6].map((steps) => expected(steps).value ?? Number.NaN);
  expect(written).toHaveLength(wanted.length);
  for (const [place, value] of written.entries()) expect(value).toBeCloseTo(at(wanted, place), 5);
});

test('[IS22] everything else has its turn while a large meeting is held', async () => {
  const elements = 300_000;
  const tensor = { name: 'wide', shape: [elements], elements, offset: 0, initial: 'normal' as const };
  const wide: Model = { ...model, blocks: [{ name: 'head', tensors: [tensor], elements }] };
  const range: Range = [0, elements];
  const shards = {
    readState: async (...of: unknown[]) => new Float32Array(elements * (of[2] as unknown[]).length),
    writeState: () => undefined,
  } as unknown as Shards;
  const works = kept.map((work) => ({ ...work, range }));
  const own = new IslandShards(shards, {
    ...{ model: wide, train, islands, own: undefined, kept: works, stages: new Map(), uses: new Map() },
  });
  await own.stepDone(1);
  await own.stepDone(3);
  let isHeld = false;
  const meeting = own.stepDone(5).then(() => {
    isHeld = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(isHeld).toBe(false);
  await meeting;
  expect(own.isTorn).toBe(false);
});

test.each([1, 5])('[IS22] a switch that fails at step %i leaves state that is no step’s', async (failing) => {
  const keeper = opened();
  await trained(keeper, 0, failing);
  expect(keeper.own.isTorn).toBe(false);
  keeper.gpu.shards.readState = async () => {
    throw new RangeError('Array buffer allocation failed');
  };
  await expect(keeper.own.stepDone(failing)).rejects.toThrow('allocation failed');
  expect(keeper.own.isTorn).toBe(true);
});

test('[AU3] a part of a shard has the values of the island whose turn it is', async () => {
  const { own, gpu } = opened();
  gpu.update(0);
  const part: Range = [RANGE[0] + 1, RANGE[1]];
  expect([...(await own.readState('head', part, ['value']))]).toEqual([...filled(2).slice(1)]);
});
