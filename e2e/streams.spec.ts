/** Several connections between two donors, as a plan file counts on them: real tabs, real data channels. */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { CommitRecord } from '../swarm/coordinator/events.ts';
import { goldenFile, jsonLines, runSwarm, temporaryFolder } from './product.ts';

const STREAMS = 4;

test('[WP51] the plan of a cluster with windows: as many connections as it counts on, the golden curve', async () => {
  const folder = temporaryFolder();
  const [cluster, plan, record] = ['cluster.json', 'plan.json', 'record.jsonl'].map((name) => join(folder, name));
  const run = goldenFile('gpt2-tiny/run.json');
  // 100 kB every 80 ms are 1.25 MB/s, a quarter of the line. Slow peers, so that both are used.
  const peers = ['a', 'b'].map((id) => ({ id, memoryBytes: 4e9, flopsPerSecond: 1e7 }));
  const link = { latencySeconds: 0.04, bytesPerSecond: 5e6, windowBytes: 1e5 };
  writeFileSync(cluster ?? '', JSON.stringify({ peers, links: { default: link } }));
  const planned = execFileSync(process.execPath, ['setup.mjs', 'plan', run, '--cluster', cluster ?? '', '--json']);
  writeFileSync(plan ?? '', planned);
  expect(JSON.parse(String(planned)).links).toEqual([
    { from: 'a', to: 'b', streams: STREAMS, wire: 'f32' },
    { from: 'b', to: 'a', streams: STREAMS, wire: 'f32' },
  ]);
  const { metrics } = await runSwarm(
    run,
    ...['--donors', '2', '--plan', plan ?? '', '--steps', '6', '--record', record ?? ''],
  );
  const expected = jsonLines(goldenFile('gpt2-tiny/expected.jsonl')) as CommitRecord[];
  expect(metrics).toHaveLength(6);
  for (const [step, { loss, bytesDirect, bytesRelayed }] of metrics.entries()) {
    expect(Math.abs(loss / (expected[step]?.loss ?? Number.NaN) - 1), `step ${step}`).toBeLessThan(2e-6);
    expect([bytesDirect > 0, bytesRelayed]).toEqual([true, 0]);
  }
  // What each donor reported of its link with each step.
  const streams = [...readFileSync(record ?? '', 'utf8').matchAll(/"streams":(\d+)/g)].map(([, count]) =>
    Number(count),
  );
  const plans = streams.filter((count) => count === STREAMS);
  expect(plans.length).toBeGreaterThanOrEqual(2 * 6);
  expect(streams.every((count) => count === STREAMS)).toBe(true);
});
