/** A checkpoint of which a replica uploads the shards, as its plan says, and the primary only tells what it has. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { peerId } from '../swarm/base.ts';
import { equalSplit } from '../swarm/planner/equalSplit.ts';
import { modelOf } from '../swarm/run/runFile.ts';
import { curveFaults, weightFaults } from './fidelity.ts';
import { copyOfRun, expectReplayed, runFileAt, runSwarm, temporaryFolder } from './product.ts';

const STEPS = 20;

interface Uploaded {
  readonly type: string;
  readonly step: number;
  readonly shards: readonly unknown[];
  readonly copies?: readonly unknown[];
}

/** What each donor said of checkpoints, by the recording. */
function uploads(recording: string): { readonly peer: string; readonly said: Uploaded }[] {
  const found: { peer: string; said: Uploaded }[] = [];
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    const { peer, message } = value as { peer?: unknown; message?: Uploaded };
    if (typeof peer === 'string' && message?.type === 'uploaded') found.push({ peer, said: message });
    for (const inner of Object.values(value)) visit(inner);
  };
  for (const line of readFileSync(recording, 'utf8').split('\n')) if (line !== '') visit(JSON.parse(line));
  return found;
}

test('[RE88] [RE89] a replica uploads the checkpoints, which have the reference’s weights; when it is killed others do', async () => {
  const path = copyOfRun('gpt2-tiny', (file) => ({ ...file, checkpoint: { everySteps: 5 } }));
  const run = runFileAt(path);
  const alone = { stages: 1, microBatches: 2, schedule: '1f1b' } as const;
  const whole = equalSplit(modelOf(run), run.train.globalBatchSize, [peerId('a')], alone);
  const state = whole.state.map(({ block, shards }) => ({
    block,
    shards: shards.map((shard) => ({ ...shard, replicas: [peerId('b')], uploader: peerId('b') })),
  }));
  const shards = state.reduce((sum, block) => sum + block.shards.length, 0);
  const folder = temporaryFolder();
  const file = (name: string): string => join(folder, name);
  writeFileSync(file('plan.json'), JSON.stringify({ ...whole, state }));
  const swarm = async (name: string, ...options: readonly string[]) => {
    const { metrics } = await runSwarm(
      path,
      ...['--donors', '2', '--plan', file('plan.json'), ...options],
      ...['--report', file(`${name}.report`), '--record', file(`${name}.jsonl`), '--export', file(name)],
    );
    expect(curveFaults('gpt2-tiny', STEPS, metrics)).toEqual([]);
    expect(weightFaults('gpt2-tiny', file(name))).toEqual([]);
    expect(JSON.parse(readFileSync(file(`${name}.report`), 'utf8'))).toMatchObject({ rollbacks: [], refused: [] });
    await expectReplayed(file(`${name}.jsonl`));
    return uploads(file(`${name}.jsonl`));
  };
  const said = await swarm('kept');
  expect(new Set(said.map(({ said: { step } }) => step))).toEqual(new Set([5, 10, 15, 20]));
  const counts = said.map(({ said: { shards: own, copies = [] } }) => [own.length, copies.length].join(' ')).sort();
  expect(counts).toEqual([...Array(4).fill(`0 ${shards}`), ...Array(4).fill(`${shards} 0`)].sort());
  expect(new Set(said.flatMap(({ peer, said: { shards: own } }) => (own.length > 0 ? peer : []))).size).toBe(1);
  const after = await swarm('killed', '--chaos', 'kill:1@12');
  const who = after.flatMap(({ peer, said: { shards: own } }) => (own.length > 0 ? peer : []));
  expect(new Set(who).size).toBe(2);
});
