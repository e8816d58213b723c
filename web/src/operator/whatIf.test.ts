import { expect, test } from 'vitest';
import { parseCluster } from '../../../swarm/planner/cluster.ts';
import { changedCluster } from '../../../swarm/planner/whatIf.ts';
import { changeWords } from './whatIf.tsx';

const UNCHANGED = {
  ...{ uploadBytesPerSecond: 1, downloadBytesPerSecond: 1, bytesPerSecond: 1, latencySeconds: 1, memoryBytes: 1 },
};

test('the form’s words are the planner’s', () => {
  const cluster = parseCluster(
    {
      peers: ['-aB_1', 'b'].map((id) => ({ id, memoryBytes: 8, flopsPerSecond: 1 })),
      links: { default: { bytesPerSecond: 10 } },
    },
    'test',
  );
  const words = changeWords({
    ...{ added: 2, like: '-aB_1', removed: 'b' },
    factors: { ...UNCHANGED, bytesPerSecond: 0.25, memoryBytes: 2 },
  });
  expect(words).toBe('add 2 like -aB_1; remove b; bytesPerSecond x0.25; memoryBytes x2');
  if (!cluster.ok) throw new Error(cluster.reason);
  const changed = changedCluster(cluster.value, words);
  if (!changed.ok) throw new Error(changed.reason);
  expect(changed.value.peers.map(({ id, memoryBytes }) => [id, memoryBytes])).toEqual([
    ['-aB_1', 16],
    ['-aB_1-2', 16],
    ['-aB_1-3', 16],
  ]);
  expect(changeWords({ added: 0, like: 'a', removed: '', factors: UNCHANGED })).toBe('');
});
