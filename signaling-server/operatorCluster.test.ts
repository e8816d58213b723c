import { describe, expect, it } from 'vitest';
import { peerId } from '../swarm/base.ts';
import { NO_LIMITS } from '../swarm/limits.ts';
import type { Connection } from './connectedDonors.ts';
import { clusterAtHand, tableOf } from './operatorCluster.ts';
import { SCRIPTED_ADAPTER } from './scriptedDonor.ts';

const layer = (samples: number, seconds: number) => ({
  samples,
  forwardSeconds: seconds,
  backwardSeconds: 2 * seconds,
});

function donor(id: string, speed: number, layers = [layer(1, 0.01), layer(4, 0.025)]): Connection {
  return {
    peer: peerId(id),
    link: {
      send: () => {},
      sendBytes: async () => {},
      refuse: () => {},
      close: () => {},
    } as unknown as Connection['link'],
    token: '',
    adapter: SCRIPTED_ADAPTER,
    donor: null,
    limits: { ...NO_LIMITS, speed, uploadBytesPerSecond: 2e6 },
    profile: { layers, memoryBytes: 1e9, checkedKernels: 0 },
    uploadBytes: 0,
  };
}

describe('the donors at hand as a cluster', () => {
  it('[CL4] has each one’s times by size, between two measured sizes along a line', () => {
    expect(tableOf([layer(4, 0.025), layer(1, 0.01)], ({ forwardSeconds }) => forwardSeconds)).toEqual([
      0.01,
      expect.closeTo(0.015, 12),
      expect.closeTo(0.02, 12),
      0.025,
    ]);
    expect(tableOf([layer(2, 0.02)], ({ forwardSeconds }) => forwardSeconds)).toEqual([0.02, 0.02]);
  });

  it('scales them by the share of the GPU that is given, and has each link once', () => {
    const link = { route: 'direct' as const, roundTripMs: 40, bytesPerSecond: 1e6 };
    const [a, b] = [peerId('a'), peerId('b')];
    const cluster = clusterAtHand(
      [donor('a', 1), donor('b', 0.5)],
      [
        { from: a, peer: b, ...link },
        { from: b, peer: a, ...link, bytesPerSecond: 9e9 },
        { from: a, peer: peerId('gone'), ...link },
      ],
    );
    expect(cluster).toMatchObject({
      ok: true,
      value: {
        peers: [
          { id: 'a', memoryBytes: 1e9, uploadBytesPerSecond: 2e6 },
          { id: 'b', measured: { forwardSecondsPerLayer: [0.02, 0.03, 0.04, 0.05] } },
        ],
        links: { pairs: [{ between: ['a', 'b'], latencySeconds: 0.02, bytesPerSecond: 1e6 }] },
      },
    });
  });

  it('says so where nobody has measured anything', () => {
    expect(clusterAtHand([donor('a', 1, [])], [])).toEqual({ ok: false, reason: expect.stringContaining('no donor') });
  });
});
