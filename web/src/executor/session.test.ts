import { expect, test } from 'vitest';
import { peerId, type Range } from '../../../swarm/base.ts';
import { shardsOf } from '../../../swarm/memory/memory.ts';
import type { PeerMessage, ServerMessage } from '../../../swarm/messages/messages.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import { equalSplit } from '../../../swarm/planner/equalSplit.ts';
import { initialValue, KeeperState } from '../testing/keeperState.ts';
import type { Stage } from './engine.ts';
import type { Engine } from './role.ts';
import type { RunFiles } from './runFiles.ts';
import { Commits, Session } from './session.ts';

const [ME, B, C, OTHER] = [peerId('a'), peerId('b'), peerId('c'), peerId('z')];
const CONFIG = { model_type: 'gpt2', n_layer: 1, n_head: 1, n_embd: 4, n_positions: 8, vocab_size: 32 };
const FOUND = modelFromConfig(CONFIG);
if (!FOUND.ok) throw new Error(FOUND.reason);
const MODEL = FOUND.value;
const ISLANDS = {
  ...{ count: 2, innerSteps: 1, exchange: 'f32', publish: 'f32', overlap: true },
  outer: { learningRate: 0.5, momentum: 0 },
};
const LIST = { tokens: 1_000, shardTokens: 1_000, bytesPerToken: 1, shards: ['all'] };

/** This donor computes island 0, whose copies two others keep; another one has island 1. */
function planOf(): Plan {
  const split = equalSplit(MODEL, 1, [ME]);
  const state = split.state.map(({ block, shards }) => ({
    block,
    shards: shards.map((shard) => ({ ...shard, replicas: [B, C] })),
  }));
  return { ...split, state, islands: [0] };
}
const PLAN = planOf();
const GROUPS = [
  { epoch: 1, islands: [0], state: PLAN.state },
  { epoch: 2, islands: [1], state: equalSplit(MODEL, 1, [OTHER]).state },
];

/** A session of one donor that has been told of the plan, and is ready. */
async function ready(train: object, plan: Plan, mayAnswer: boolean) {
  const said: PeerMessage[] = [];
  let gpuMemoryBytes = 0;
  let ready = (): void => undefined;
  const isReady = new Promise<void>((resolve) => {
    ready = resolve;
  });
  const engine = {
    ...{ wire: 'f32', asked: 'f32', compute: 'f32' },
    warm: async () => undefined,
    stage: async () => ({ bytes: 4, close: () => undefined, writeValues: () => undefined }) as unknown as Stage,
    shards: async () => new KeeperState(shardsOf(MODEL, plan, ME)).shards,
  } as unknown as Engine;
  const files = {
    tokenShard: async () => new ArrayBuffer(LIST.tokens),
    state: async (_checkpoint: number, _block: string, kind: string, [from, to]: Range) =>
      Float32Array.from({ length: to - from }, (_, i) => (kind === 'value' ? initialValue(from + i) : 0)),
  } as unknown as RunFiles;
  const session = new Session({
    page: {
      sendServer: (message) => {
        said.push(message);
        if (message.type === 'ready') ready();
      },
      showStatus: (status) => {
        gpuMemoryBytes = status.gpuMemoryBytes;
      },
      mayAnswer: async () => mayAnswer,
    },
    ways: {
      // The others are slow to meet.
      ...{ sendFrame: () => new Promise(() => undefined), connect: async () => undefined, bar: () => undefined },
      ...{ openAhead: async () => undefined, openDirect: async () => false, measure: async () => null },
    },
    ...{ engine: () => engine, files: () => files, now: () => 0, wait: async () => undefined },
  });
  const tell = (message: object) => session.serverSaid(message as ServerMessage);
  const run = {
    ...{ name: 'r', model: CONFIG, data: LIST, order: { type: 'sequential' }, wire: 'f32' },
    train: { steps: 8, sequenceLength: 4, globalBatchSize: 1, optimizer: { type: 'adamw' }, ...train },
  };
  tell({ type: 'welcome', peer: ME, token: 't', heard: null, run });
  const source = { from: 'checkpoint', step: 0 };
  tell({ type: 'prepare', epoch: 1, generation: 0, step: 0, source, plan, met: 0 });
  await isReady;
  return { session, said, tell, memory: () => gpuMemoryBytes };
}

test('[IS83] a link that is lost after the epoch was given up is told of where a meeting beside its steps needs it', async () => {
  const { session, said, tell } = await ready({ islands: ISLANDS }, PLAN, false);
  tell({ type: 'meet', epoch: 1, round: 0, attempt: 1, steps: [1, 1], groups: GROUPS, beside: true });
  const faults = () => said.flatMap((one) => (one.type === 'fault' ? [[one.reason, one.about]] : []));
  session.linkLost(B);
  tell({ type: 'abandon', epoch: 1, detail: 'its link was lost' });
  expect(faults()).toEqual([['linkLost', B]]);
  session.linkLost(C);
  session.linkLost(C);
  expect(faults()).toEqual([
    ['linkLost', B],
    ['linkLost', C],
  ]);
});

test.each([true, false])('[AN5] a finished run stays with a donor that answers questions: %s', async (mayAnswer) => {
  const { tell, memory } = await ready({}, equalSplit(MODEL, 1, [ME]), mayAnswer);
  expect(memory()).toBeGreaterThan(0);
  tell({ type: 'standby', state: 'finished' });
  await new Promise((resolve) => setImmediate(resolve));
  expect(memory() > 0).toBe(mayAnswer);
});

// With islands an island's time is not the step's count.
const scalars = (step: number) => ({ learningRate: step / 10, clipScale: 1, time: 1 });
const { signal } = new AbortController();

test('[CO22] a commit answers its step, whether it arrives before or after it is asked for', async () => {
  const commits = new Commits();
  commits.arrived(1, 4, scalars(4));
  expect(await commits.answer(1, 4, signal)).toEqual(scalars(4));
  const next = commits.answer(1, 5, signal);
  commits.arrived(1, 5, scalars(5));
  expect(await next).toEqual(scalars(5));
});

test('[CO14] a commit of another epoch or step answers nothing', async () => {
  const commits = new Commits();
  const leaving = new AbortController();
  commits.arrived(1, 4, scalars(4));
  const asked = [commits.answer(2, 4, leaving.signal), commits.answer(1, 5, leaving.signal)];
  commits.arrived(1, 6, scalars(6));
  leaving.abort(new Error('left'));
  expect((await Promise.allSettled(asked)).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
});
