import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { peerId } from '../../swarm/base.ts';
import type { Snapshot } from '../../swarm/messages/snapshot.ts';
import { RunCounts } from './metrics.ts';

const adapter = { vendor: 'v', architecture: 'a', description: 'd', software: true, browser: 'b' };
const donor = (peer: string): Snapshot['donors'][number] => ({
  ...{ peer: peerId(peer), adapter, stages: [], tokens: 0 },
  state: 'computing',
});

test('metrics in the open format end with their own mark, and the board asks for nothing else than there is', async () => {
  const counts = new RunCounts(5_000);
  const snapshot = { run: 'r', phase: 'training', sentence: '', generation: 1, epoch: 2, donors: [] } as const;
  const numbers = { committedSteps: 2, steps: 9, loss: 1.5, evaluationLoss: null, tokensPerSecond: null };
  // By an earlier server.
  const text = await counts.text({ ...snapshot, ...numbers, donors: [] }, true);
  expect(text).toContain('shoal_last_checkpoint_timestamp_seconds 5\n');
  expect(text.trimEnd().endsWith('# EOF')).toBe(true);
  expect(text).toContain('shoal_run_loss 1.5');
  expect(text).toContain('shoal_run_phase{phase="training"} 1');
  for (const file of ['grafana.json', 'alerts.yml']) {
    const asked = readFileSync(join(import.meta.dirname, file), 'utf8').match(/shoal_\w+/g) ?? [];
    expect(asked.length).toBeGreaterThan(3);
    for (const name of new Set(asked))
      expect(text).toContain(`# TYPE ${name.replace(/_(total|bucket|sum|count)$/, '')}`);
  }
});

test('metrics: names with units, labels from closed lists, no donor by name', async () => {
  const counts = new RunCounts();
  const commit = { step: 0, loss: 1, gradientNorm: 1, learningRate: 1, donors: 2, stages: 1, microBatches: 1, plan: 1 };
  const traffic = { activation: 4, gradient: 4, slice: 1, values: 1 };
  counts.committed({ ...commit, tokens: 64, seconds: 0.2, bytesDirect: 10, bytesRelayed: 1 }, traffic);
  counts.committed({ ...commit, tokens: 64, seconds: 90, bytesDirect: 10, bytesRelayed: 1 }, null);
  counts.served('tokens', 7);
  counts.refused('malformed');
  counts.rolledBack();
  const donors = [donor('secret-a'), donor('secret-b')];
  const way = { route: 'relayed' } as const;
  const facts = { run: 'r', phase: 'training', sentence: '', generation: 1, epoch: 2 } as const;
  const text = await counts.text({
    ...facts,
    donors,
    links: [
      { ...way, from: peerId('secret-a'), peer: peerId('secret-b'), roundTripMs: 40, bytesPerSecond: 2e6 },
      { ...way, from: peerId('secret-b'), peer: peerId('secret-a'), roundTripMs: 50, bytesPerSecond: null },
    ],
    ...{ committedSteps: 2, steps: 9, loss: 1, evaluationLoss: null, tokensPerSecond: 1 },
  });
  for (const line of [
    'shoal_donors{state="computing"} 2',
    'shoal_run_committed_steps 2',
    'shoal_committed_tokens_total 128',
    'shoal_roll_backs_total 1',
    'shoal_refused_total{reason="malformed"} 1',
    'shoal_tensor_bytes_total{way="direct"} 20',
    'shoal_step_tensor_bytes_total{kind="activation"} 4',
    'shoal_server_bytes_total{kind="tokens"} 7',
    'shoal_server_bytes_total{kind="checkpoint"} 0',
    'shoal_links{way="direct"} 0',
    'shoal_links{way="relayed"} 2',
    'shoal_link_round_trip_seconds{of="least"} 0.04',
    'shoal_link_round_trip_seconds{of="most"} 0.05',
    'shoal_link_bytes_per_second{of="median"} 2000000',
    'shoal_commit_seconds_bucket{le="0.1"} 0',
    'shoal_commit_seconds_bucket{le="0.25"} 1',
    'shoal_commit_seconds_bucket{le="+Inf"} 2',
    'shoal_commit_seconds_sum 90.2',
  ]) {
    expect(text.split('\n')).toContain(line);
  }
  expect(text).not.toContain('secret');
  for (const line of text.split('\n'))
    expect(line).toMatch(/^$|^# (HELP|TYPE) shoal_|^shoal_\w+(\{\w+="[^"]*"\})? \S+$/);
});
