import { describe, expect, it } from 'vitest';
import { peerId } from '../base.ts';
import type { ClusterPeer } from '../planner/cluster.ts';
import { sparseIslands } from '../testing/islands.ts';
import { decisionConfig, rehearsalTerms } from '../testing/rehearsalTerms.ts';
import { findGroups, haveDrifted, pacesOf } from './groupsAnew.ts';

const peer = (
  id: string,
  seconds: number,
  upload: number | null = null,
  download: number | null = null,
): ClusterPeer => ({
  ...{ id, memoryBytes: 1e9, uploadBytesPerSecond: upload, downloadBytesPerSecond: download },
  measured: { forwardSecondsPerLayer: [seconds / 3], backwardSecondsPerLayer: [(2 * seconds) / 3] },
});
const paces = (...peers: ClusterPeer[]) => pacesOf({ peers, links: { default: {}, regions: [], pairs: [] } });

describe('drift of those for whom groups were sought', () => {
  const before = paces(peer('a', 3, 1e6, 8e6), peer('b', 6));

  it.each([
    ['a layer takes 1.6 times as long', peer('a', 4.8, 1e6, 8e6), true],
    ['a layer takes 1 / 1.6 as long', peer('a', 1.875, 1e6, 8e6), true],
    ['a layer takes 1.4 times as long', peer('a', 4.2, 1e6, 8e6), false],
    ['it sends 1.6 times as much', peer('a', 3, 1.6e6, 8e6), true],
    ['it sends 1.4 times as much', peer('a', 3, 1.4e6, 8e6), false],
    ['it receives 1 / 1.6 as much', peer('a', 3, 1e6, 5e6), true],
    ['a line nobody knew turns out slow', peer('b', 6, 1e6), true],
    ['a line nobody knew turns out as it was taken for', peer('b', 6, 5e6, 4e6), false],
    ['somebody comes', peer('c', 1), false],
  ])('%s: %o', (_, now, expected) => {
    expect(haveDrifted(before, paces(now))).toBe(expected);
  });

  it('nobody has drifted from what they are', () => {
    expect(haveDrifted(before, before)).toBe(false);
  });
});

it('links that were measured are those of whom groups are sought of, and no others', () => {
  const islands = sparseIslands(10);
  const { config } = rehearsalTerms({ layers: 2, islands });
  const { planning: together } = decisionConfig(config, { auto: true, replicas: 0 });
  const planning = { ...together, batch: { ...together.batch, islands } };
  const between = (one: string, other: string) => ({ between: [one, other] as [string, string], latencyMs: 5 });
  const links = { default: {}, regions: [], pairs: [between('a', 'b'), between('b', 'c'), between('c', 'd')] };
  const cluster = { peers: ['a', 'b', 'c', 'd'].map((id) => peer(id, 0.01)), links };
  const problem = { cluster, shares: {}, computes: {}, serverSeconds: {}, mainMemory: {} };
  const found = findGroups(planning, { problem, standing: [[peerId('a')], [peerId('b')]] });
  expect(found.ok && found.value.kept.groups.flat().toSorted()).toEqual(['a', 'b', 'c', 'd']);
});
