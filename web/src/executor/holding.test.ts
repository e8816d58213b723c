import { expect, test } from 'vitest';
import { peerId, type Range } from '../../../swarm/base.ts';
import { equalSplit } from '../../../swarm/planner/equalSplit.ts';
import type { Islands, Train } from '../../../swarm/run/runFile.ts';
import { outlineModel } from '../../../swarm/testing/randomPlan.ts';
import type { Shards, Stage } from './engine.ts';
import { Epochs } from './epochs.ts';
import { Holding } from './holding.ts';
import { buildRole, type Engine } from './role.ts';

/** A role asks a run for no more. */
const TRAIN = { sequenceLength: 5 } as Train;
const MODEL = outlineModel(2, false);
const [A, B, REPLICA] = [peerId('a'), peerId('b'), peerId('replica')];
const NOTHING = { bytes: 0, close: () => undefined };
const ENGINE = {
  ...{ wire: 'f32', asked: 'f32', compute: 'f32' },
  warm: async () => undefined,
  stage: async () => ({ ...NOTHING, writeValues: () => undefined }) as unknown as Stage,
  shards: async () => ({ ...NOTHING, writeState: () => undefined }) as unknown as Shards,
} as unknown as Engine;

const ISLANDS: Islands = {
  ...{ count: 2, innerSteps: 1, exchange: 'f32', publish: 'f32', overlap: false },
  outer: { learningRate: 1, momentum: 0 },
};
const WAYS = {
  connect: async () => undefined,
  read: async (_checkpoint: number, _block: string, _kind: string, [from, to]: Range) => new Float32Array(to - from),
  readBase: async () => undefined,
  send: async () => undefined,
  receive: async () => new Float32Array(1),
};

async function holding(replicas: number): Promise<Holding> {
  const split = equalSplit(MODEL, 2, [A, B], { microBatches: 1 });
  const state = split.state.map(({ block, shards }) => ({
    block,
    shards: shards.map((shard) => ({ ...shard, replicas: replicas > 0 ? [REPLICA] : [] })),
  }));
  const made = new Holding();
  const target = {
    model: MODEL,
    train: TRAIN,
    engine: ENGINE,
    peer: REPLICA,
    plan: { ...split, state },
    epoch: 1,
    generation: 0,
    step: 4,
  };
  await made.arrive(target, { from: 'checkpoint', step: 4 }, WAYS);
  return made;
}

test('[RE19] a replica that is told of a commit before it has the slices stands after the step before', async () => {
  const replica = await holding(1);
  replica.added(4);
  replica.committed(5);
  expect(replica.step).toBe(4);
  replica.added(5);
  expect(replica.step).toBe(5);
});

test('[RE19] what an abandoned attempt added does not count for the next one', async () => {
  const replica = await holding(1);
  replica.added(5); // and the attempt is given up
  replica.added(4);
  replica.committed(5);
  expect(replica.step).toBe(4);
});

test.each([Number.NaN, Number.NEGATIVE_INFINITY])(
  '[CO36] puts nothing into a shard of what was handed over with %d in it, and names its giver',
  async (value) => {
    const written: Float32Array[] = [];
    const engine = {
      ...ENGINE,
      shards: async () => ({ ...NOTHING, writeState: (...of: unknown[]) => written.push(of[3] as Float32Array) }),
    } as unknown as Engine;
    const before = equalSplit(MODEL, 2, [A], { microBatches: 1 });
    const plan = equalSplit(MODEL, 2, [B], { microBatches: 1 });
    const target = { model: MODEL, train: TRAIN, engine, peer: B, plan, epoch: 2, generation: 0, step: 4 };
    const told: unknown[] = [];
    const epochs = new Epochs((...fault) => told.push(fault));
    epochs.begin(2, null, () =>
      new Holding().arrive(
        target,
        { from: 'peers', epoch: 1, plan: before },
        {
          connect: async () => undefined,
          read: async () => new Float32Array(1),
          readBase: async () => undefined,
          send: async () => undefined,
          receive: async ({ kind, range: [from, to] }) => {
            expect(kind).toBe('state');
            return new Float32Array(to - from).fill(value, to - from - 1);
          },
        },
      ),
    );
    await epochs.current?.work;
    expect(told).toEqual([[2, 'badFrame', expect.stringContaining('a handed over value of'), A]]);
    expect(written).toEqual([]);
  },
);

test('[RE19] who keeps nothing stands where the commits do', async () => {
  const member = await holding(0);
  member.committed(5);
  expect(member.step).toBe(5);
});

test('[IS22] state that a failed switch left is not kept, not handed over, and not said to stand', async () => {
  let sent = 0;
  const shards = {
    ...{ ...NOTHING, writeState: () => undefined },
    readState: () => Promise.reject(new Error('no readback')),
  };
  const engine = { ...ENGINE, shards: async () => shards as unknown as Shards };
  const plan = equalSplit(MODEL, 2, [A], { microBatches: 1 });
  const train = { ...TRAIN, steps: 4, islands: ISLANDS };
  const target = { model: MODEL, train, engine, peer: A, plan, epoch: 1, generation: 0, step: 0 };
  const ways = { ...WAYS, send: async () => void sent++ };
  const made = new Holding();
  await made.arrive(target, { from: 'checkpoint', step: 0 }, ways);
  expect(made.standing.role).toEqual({ epoch: 1, step: 0 });
  made.added(1);
  made.committed(1);
  await expect(made.role?.islands?.stepDone(0)).rejects.toThrow('no readback');
  expect(made.isWhole).toBe(false);
  expect(made.standing.role).toBeNull();
  const next = { ...target, epoch: 2, step: 1 };
  await expect(made.arrive(next, { from: 'kept' }, ways)).rejects.toThrow('not whole');
  shards.readState = () => Promise.resolve(new Float32Array(1)) as never;
  await expect(made.arrive(next, { from: 'peers', epoch: 1, plan }, ways)).rejects.toThrow('not whole');
  expect(sent).toBe(0);
  await made.arrive({ ...target, epoch: 3 }, { from: 'checkpoint', step: 0 }, ways);
  expect(made.standing.role).toEqual({ epoch: 3, step: 0 });
});

test('[IS20] where there is no main memory for the islands, the GPU’s is freed and the fault says so', async () => {
  const closed: string[] = [];
  const engine = {
    ...ENGINE,
    stage: async () => ({ close: () => closed.push('stage') }) as unknown as Stage,
    shards: async () =>
      ({
        close: () => closed.push('shards'),
        get bytes(): number {
          throw new RangeError('Array buffer allocation failed');
        },
      }) as unknown as Shards,
  };
  const plan = equalSplit(MODEL, 1, [A], { microBatches: 1 });
  const told: unknown[] = [];
  const epochs = new Epochs((...fault) => told.push(fault));
  const build = () => buildRole(engine, MODEL, { ...TRAIN, steps: 4, islands: ISLANDS }, plan, A, 1);
  epochs.begin(1, null, async () => void (await build()));
  await epochs.current?.work;
  expect(closed.toSorted()).toEqual(['shards', 'stage']);
  expect(told).toEqual([[1, 'outOfMemory', 'RangeError: Array buffer allocation failed', undefined]]);
});

test('[CO12] a range that is none of memory is a fault of our own', async () => {
  const told: unknown[] = [];
  const epochs = new Epochs((_epoch, reason) => told.push(reason));
  epochs.begin(1, null, () => Promise.reject(new RangeError('offset is out of bounds')));
  await epochs.current?.work;
  expect(told).toEqual(['internal']);
});
