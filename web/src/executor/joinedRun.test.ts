import { expect, test } from 'vitest';
import { invariant, peerId } from '../../../swarm/base.ts';
import type { RunFacts } from '../../../swarm/messages/runFacts.ts';
import { windowOfSample } from '../../../swarm/run/data.ts';
import { joinedRun } from './joinedRun.ts';
import type { Engine } from './role.ts';
import type { RunFiles } from './runFiles.ts';

const SEQUENCE = 2;
const WINDOWS = 9;
const ORDER = { type: 'shuffled', seed: 3 } as const;

test('[DA5] held-out text is read in sequence, though the training text is shuffled', async () => {
  const list = { tokens: WINDOWS * SEQUENCE + 1, shardTokens: 64, bytesPerToken: 1 as const, shards: ['all'] };
  const facts = {
    ...{ name: 'a', data: list, evaluation: list, order: ORDER, wire: 'f32' },
    model: { model_type: 'gpt2', n_layer: 1, n_head: 1, n_embd: 4, n_positions: 8, vocab_size: 32 },
    train: { sequenceLength: SEQUENCE, optimizer: { type: 'adamw' } },
  } as unknown as RunFacts; // of the training nothing else is asked
  const files = { tokenShard: async () => Uint8Array.from({ length: list.tokens }, (_, token) => token).buffer };
  const run = joinedRun(peerId('a'), facts, () => ({}) as Engine, files as unknown as RunFiles);
  invariant(run.evaluation, 'the run has held-out text');
  const windowsOf = async (source: typeof run.tokens) =>
    [...(await source.read(0, [0, WINDOWS])).ids].filter((_, at) => at % SEQUENCE === 0).map((id) => id / SEQUENCE);
  const all = Array.from({ length: WINDOWS }, (_, window) => window);
  expect(await windowsOf(run.evaluation)).toEqual(all);
  expect(await windowsOf(run.tokens)).toEqual(all.map((sample) => windowOfSample(ORDER, sample, WINDOWS)));
});
