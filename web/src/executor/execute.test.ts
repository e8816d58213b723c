/** A step of one peer from its list, with a stage and shards that only note what is asked of them. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { invariant, peerId } from '../../../swarm/base.ts';
import type { TensorKey } from '../../../swarm/messages/frame.ts';
import { seated } from '../../../swarm/plan/plan.ts';
import { equalSplit } from '../../../swarm/planner/equalSplit.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import { formatAction } from '../../../swarm/schedule/action.ts';
import { stepSchedule } from '../../../swarm/schedule/lower.ts';
import { outlineModel } from '../../../swarm/testing/randomPlan.ts';
import { parseAction } from '../../../swarm/testing/scheduleText.ts';
import type { WireEncoding } from '../../../swarm/wire.ts';
import { FULL_SPEED } from './dutyCycle.ts';
import type { Reading, Shards, Stage, UpdateScalars } from './engine.ts';
import { StepRun } from './execute.ts';
import { buildRole, type Engine } from './role.ts';
import type { Surroundings } from './surroundings.ts';

const [A, B] = [peerId('a'), peerId('b')];
/** A role asks a run for no more. */
const TRAIN = { sequenceLength: 4 } as Train;
const SCALARS: UpdateScalars = { learningRate: 1, clipScale: 1, time: 1 };
const reading: Reading = { take: async (use) => use(new Float32Array(1)) };

/** What the first of two peers does; its tied embedding is computed with by both. */
async function stepOfFirst(
  around: (notes: string[]) => Partial<Surroundings>,
  {
    wire = 'f32',
    isAlone = false,
    copied = null,
    own = {},
  }: { wire?: WireEncoding; isAlone?: boolean; copied?: string | null; own?: Partial<Stage> } = {},
) {
  const notes: string[] = [];
  const note = (what: string) => () => void notes.push(what);
  const stage: Stage = {
    ...{ begin: note('begin'), forward: note('forward'), recompute: note('recompute'), backward: note('backward') },
    readOutput: async () => reading,
    readInputGradient: async () => reading,
    readLoss: async () => reading,
    readGradient: async () => reading,
    packGradient: async () => reading,
    writeGradient: note('write gradient'),
    writeValues: () => undefined,
    writeStanding: () => undefined,
    addValues: () => undefined,
    readValues: async () => reading,
    settled: async () => undefined,
    ...{ bytes: 0, close: () => undefined, free: () => undefined },
    ...own,
  };
  const shards: Shards = {
    ...{ bytes: 0, hostBytes: 0, begin: () => undefined, addOwn: () => undefined, addReceived: note('add received') },
    sumSquares: async () => [],
    update: note('update'),
    readValues: async () => reading,
    packValues: async () => reading,
    readState: async () => new Float32Array(1),
    writeState: (block, _range, kind) => void notes.push(`write ${kind} of ${block}`),
    close: () => undefined,
  };
  const engine = {
    ...{ wire, asked: 'f32', compute: 'f32' },
    ...{ stage: async () => stage, warm: async () => undefined, shards: async () => shards },
    answers: () => Promise.reject(new Error('nobody asks')),
  };
  const model = outlineModel(2, true);
  const split = equalSplit(model, 1, [A, B], { microBatches: 1 });
  const state = split.state.map(({ block, shards }) => ({
    block,
    shards: shards.map((shard) => ({ ...shard, replicas: block === copied ? [A] : [] })),
  }));
  const plan = isAlone ? seated(split, [A, A]) : { ...split, state };
  const role = await buildRole(engine as Engine, model, TRAIN, plan, A, 1);
  const { signal } = new AbortController();
  const run = new StepRun(
    role,
    {
      signal,
      now: () => 0,
      throttle: FULL_SPEED,
      links: [],
      lossScale: 1,
      send: async (_to, { kind }) => void notes.push(`send ${kind}`),
      receive: async ({ kind }) => {
        notes.push(`receive ${kind}`);
        return new Float32Array(1);
      },
      tokens: async () => ({ ids: new Uint32Array(1), targets: new Uint32Array(1), firstRows: null }),
      report: note('report'),
      committed: async () => {
        notes.push('committed');
        return SCALARS;
      },
      ...around(notes),
    },
    0,
  );
  const actions = stepSchedule(plan).get(A);
  invariant(actions, 'the first peer has a list');
  return { run, notes, actions };
}

test('[SC4] [SC20] the second half of a step is read from the list', async () => {
  const { run, notes, actions } = await stepOfFirst(() => ({}));
  const timeline = await run.train(actions);
  expect([...new Set(notes)]).toEqual([
    ...['begin', 'forward', 'send activation', 'receive gradient', 'backward', 'receive slice', 'add received'],
    ...['report', 'committed', 'update', 'send values'],
  ]);
  expect(timeline.map(({ action }) => formatAction(action))).toEqual(['0F0', '0B0']);
});

test('[RE11] a replica computes while the values of the step before come, and reports when they are there', async () => {
  let come = (): void => undefined;
  const values = new Promise<void>((resolve) => {
    come = resolve;
  });
  const copied = 'layer.1';
  const around = (notes: string[]): Partial<Surroundings> => ({
    receive: async ({ kind, index }) => {
      if (kind === 'values' && index === 2) await values;
      if (kind === 'slice' && index === 2) {
        // All of the step's work and slices are there.
        setTimeout(() => {
          notes.push('late');
          come();
        });
      }
      return new Float32Array(1);
    },
  });
  const { run, notes, actions } = await stepOfFirst(around, { copied });
  await run.train(actions, true);
  const order = ['backward', 'late', 'write value of layer.1', 'report', 'update'];
  expect(notes.filter((note) => order.includes(note))).toEqual(order);
  const first = await stepOfFirst(around, { copied });
  await first.run.train(first.actions);
  expect(first.notes).not.toContain('write value of layer.1');
});

test('a donor that lies changes its sums when all of them stand, before it sends or adds any', async () => {
  const { run, notes, actions } = await stepOfFirst(() => ({}));
  const made = (key: TensorKey, values: Float32Array): void => {
    notes.push(`made ${key.kind} of ${key.step}`);
    values.fill(1);
  };
  const itself = <T>(_key: TensorKey, values: T): T => values;
  vi.stubGlobal('shoalTampering', { made, leaves: itself, reports: (report: unknown) => report });
  onTestFinished(() => void vi.unstubAllGlobals());
  await run.train(actions);
  expect([...new Set(notes)]).toEqual([
    ...['begin', 'forward', 'made activation of 0', 'send activation', 'receive gradient', 'backward'],
    ...[
      'made slice of 0',
      'write gradient',
      'receive slice',
      'add received',
      'report',
      'committed',
      'update',
      'send values',
    ],
  ]);
});

test('[SC20] without a COMMIT in the list nothing is updated', async () => {
  const { run, notes } = await stepOfFirst(() => ({}));
  await expect(run.train([parseAction('UPDATE')])).rejects.toThrow('before its update');
  expect(notes).not.toContain('update');
});

test('[SC7] a step that is given up before its commit is not updated', async () => {
  const abort = new AbortController();
  const { run, notes, actions } = await stepOfFirst(() => ({
    signal: abort.signal,
    report: () => abort.abort(new Error('given up')),
  }));
  await expect(run.train(actions)).rejects.toThrow('given up');
  expect(notes).not.toContain('committed');
  expect(notes).not.toContain('update');
});

test('[CO22] a committed step is updated and its values sent, though the step is given up meanwhile', async () => {
  const abort = new AbortController();
  const { run, notes, actions } = await stepOfFirst(() => ({
    signal: abort.signal,
    committed: async () => {
      abort.abort(new Error('given up'));
      return SCALARS;
    },
  }));
  await expect(run.train(actions)).rejects.toThrow('given up');
  expect(notes.slice(notes.indexOf('report') + 1).filter((what, at, all) => all.indexOf(what) === at)).toEqual([
    'update',
    'send values',
  ]);
});

test('what a report says was sent is counted by the way that the step began with', async () => {
  const sent = async (route: 'direct' | 'relayed' | null) => {
    const link = { peer: B, roundTripMs: null, bytesPerSecond: null };
    let bytes: readonly number[] = [];
    const { run, actions } = await stepOfFirst(() => ({
      links: route === null ? [] : [{ ...link, route }],
      report: (message) => {
        invariant(message.type === 'report', 'a step ends with its report');
        bytes = [message.bytesDirect, message.bytesRelayed];
      },
    }));
    await run.train(actions);
    return bytes;
  };
  const [direct = 0] = await sent('direct');
  // The one activation, of four rows that are four wide, and the new values of the tied table, ten rows of four.
  expect(direct).toBe(4 * (4 * 4 + 10 * 4));
  expect([await sent('direct'), await sent('relayed'), await sent(null)]).toEqual([
    [direct, 0],
    [0, direct],
    [direct, 0],
  ]);
});

test('[WI9] a stream is packed for another peer alone, gradient sums and values for nobody', async () => {
  const encodings = async (isAlone: boolean) => {
    const found: string[] = [];
    const note = (what: string, encoding = 'f32') => void found.push(`${what} ${encoding}`);
    const own: Partial<Stage> = {
      forward: ({ encoding }) => note('forward', encoding),
      backward: (_id, _gradient, encoding) => note('backward', encoding),
    };
    const send: Surroundings['send'] = async (_to, { kind, encoding }) => note(kind, encoding);
    const { run, actions } = await stepOfFirst(() => ({ send }), { wire: 'int8', isAlone, own });
    await run.train(actions);
    return [...new Set(found)];
  };
  expect(await encodings(false)).toEqual(['forward int8', 'activation int8', 'backward f32', 'values f32']);
  expect(await encodings(true)).toEqual(['forward f32', 'backward f32']);
});
