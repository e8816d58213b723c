/** A stream that is packed on the wire: real swarms, a quarter or a sixth of the bytes, near the golden curve. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type PeerId, peerId } from '../swarm/base.ts';
import type { CommitRecord } from '../swarm/coordinator/events.ts';
import { parameters } from '../swarm/model/model.ts';
import { equalSplit } from '../swarm/planner/equalSplit.ts';
import { withWires } from '../swarm/planner/streamWires.ts';
import { modelOf } from '../swarm/run/runFile.ts';
import { packedBytes, plainWire, type RunWire, type WireEncoding } from '../swarm/wire.ts';
import { copyOfRun, goldenFile, jsonLines, runFileAt, runSwarm, temporaryFolder } from './product.ts';

/**
 * Two stages, B micro-batches of one sample: the stream there and back; a tied table's gradient and values; and all
 * gradients and values once more, for the replica that each of the two keeps of the other's state.
 */
function stepBytes(path: string): number {
  const parsed = runFileAt(path);
  const { train, precision } = parsed;
  const model = modelOf(parsed);
  const tied = model.tied ? 2 * 4 * model.vocabulary * model.width : 0;
  const copies = 2 * 4 * parameters(model);
  return (
    2 * train.globalBatchSize * packedBytes(plainWire(precision.wire), train.sequenceLength * model.width) +
    tied +
    copies
  );
}

test('[PL25] [WI15] a plan with links of its own encodings: int4 there, int8 home', async () => {
  const run = copyOfRun('llama-tiny', (file) => ({ ...file, precision: { wire: 'auto' } satisfies { wire: RunWire } }));
  const parsed = runFileAt(run);
  const { globalBatchSize, sequenceLength } = parsed.train;
  const model = modelOf(parsed);
  const [first, second] = ['a', 'b'].map(peerId) as [PeerId, PeerId];
  const split = equalSplit(model, globalBatchSize, [first, second], { stages: 2 });
  const plan = join(temporaryFolder(), 'plan.json');
  writeFileSync(plan, JSON.stringify(withWires(split, ({ from }) => (from === first ? 'int4' : 'int8'))));
  const { metrics } = await runSwarm(run, '--donors', '2', '--plan', plan, '--steps', '3');
  const expected = jsonLines(goldenFile('llama-tiny/expected.jsonl')) as CommitRecord[];
  const streamed = (wire: WireEncoding): number => globalBatchSize * packedBytes(wire, sequenceLength * model.width);
  expect(metrics).toHaveLength(3);
  for (const [step, { loss, bytesDirect }] of metrics.entries()) {
    expect(Math.abs(loss / (expected[step]?.loss ?? Number.NaN) - 1), `step ${step}`).toBeLessThan(3e-2);
    expect(bytesDirect).toBe(streamed('int4') + streamed('int8')); // the model is not tied, and has no replicas
  }
});

test.each([
  ...(process.env.SHOAL_LONG === '1' ? ([['llama-tiny', 'int8', 1e-3]] as const) : []),
  ...([['gpt2-tiny', 'int4', 3e-2]] as const),
])('[WI10] [WI7] %s, %s: the golden curve within %d', async (name, wire, bound) => {
  const run = copyOfRun(name, (file) => ({ ...file, precision: { wire } satisfies { wire: WireEncoding } }));
  const report = join(temporaryFolder(), 'report.json');
  const { metrics } = await runSwarm(run, '--donors', '2', '--report', report);
  const expected = jsonLines(goldenFile(`${name}/expected.jsonl`)) as CommitRecord[];
  expect(metrics).toHaveLength(expected.length);
  for (const [step, { loss }] of expected.entries())
    expect(Math.abs((metrics[step]?.loss ?? Number.NaN) / loss - 1), `step ${step}`).toBeLessThan(bound);
  expect(new Set(metrics.map(({ bytesDirect }) => bytesDirect))).toEqual(new Set([stepBytes(run)]));
  const { memory } = JSON.parse(readFileSync(report, 'utf8'));
  for (const { predictedBytes, peakBytes } of memory) expect(peakBytes).toBeLessThanOrEqual(1.05 * predictedBytes);
});
