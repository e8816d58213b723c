import { describe, expect, it } from 'vitest';
import { invariant, peerId } from '../base.ts';
import { NO_LIMITS } from '../limits.ts';
import type { LinkReport } from '../messages/profile.ts';
import { modelFromConfig } from '../model/families.ts';
import { parseCluster } from '../planner/cluster.ts';
import { outlineModel } from '../testing/randomPlan.ts';
import { clusterAtHand } from './atHand.ts';
import type { ReportedLinks } from './lines.ts';
import { admittedProfile, measuredTimes, type PeerProfile, withRatio, workSeconds } from './peerProfile.ts';

const profile = (...times: [samples: number, forward: number, backward: number][]): PeerProfile =>
  admittedProfile({
    layers: times.map(([samples, forwardSeconds, backwardSeconds]) => ({ samples, forwardSeconds, backwardSeconds })),
    memoryBytes: 1e9,
    checkedKernels: 0,
  });

describe('a donor’s times', () => {
  it('lie on a line between two measured sizes, and past them', () => {
    const { forwardSecondsPerLayer, backwardSecondsPerLayer } = measuredTimes(profile([4, 5, 9], [1, 2, 3]), 1);
    expect(forwardSecondsPerLayer).toEqual([2, 3, 4, 5, 6]);
    expect(backwardSecondsPerLayer).toEqual([3, 5, 7, 9, 11]);
  });

  it('are in proportion where one size was measured', () => {
    expect(measuredTimes(profile([2, 3, 5]), 1).forwardSecondsPerLayer).toEqual([1.5, 3, 4.5]);
  });

  it('do not stand still past two sizes that took as long by chance', () => {
    expect(measuredTimes(profile([1, 2, 2], [2, 2, 1.9]), 1)).toEqual({
      forwardSecondsPerLayer: [2, 2, 2.25],
      backwardSecondsPerLayer: [2, 1.9, 1.9 * 1.125],
    });
  });

  it('are longer by the share of the GPU time', () => {
    expect(measuredTimes(profile([1, 2, 4], [2, 3, 6]), 0.5).forwardSecondsPerLayer).toEqual([4, 6, 8]);
  });

  it('follow the spans of the size nearest by', () => {
    const corrected = withRatio(withRatio(profile([1, 2, 4], [2, 3, 6]), 'F', 4, 3), 'B', 1, 2);
    const { forwardSecondsPerLayer, backwardSecondsPerLayer } = measuredTimes(corrected, 1);
    expect(forwardSecondsPerLayer).toEqual([6, 9, 12, 15, 18]);
    expect(backwardSecondsPerLayer).toEqual([8, 12, 16, 20, 24]);
    expect(withRatio(corrected, 'F', 4, 1).ratios).toHaveLength(2);
  });

  it('are a stage’s by its layers, and those computed again', () => {
    const seconds = workSeconds(outlineModel(4, false), { samples: 4, sequence: 4 }, profile([1, 2, 4], [2, 3, 6]));
    const shape = { first: false, last: false, layers: 3 };
    expect(seconds({ op: 'F', shape, recomputed: 0, samples: 2 })).toBe(9);
    expect(seconds({ op: 'B', shape, recomputed: 2, samples: 2 })).toBe(3 * 6 + 2 * 3);
  });

  it('where a layer’s end goes by runs of rows, R computes the rest of it ahead of its backward, which computes that', () => {
    const parsed = modelFromConfig({
      ...{ model_type: 'gpt2', n_layer: 3, n_head: 1, n_embd: 64, n_positions: 1024, vocab_size: 256 },
    });
    invariant(parsed.ok, 'a valid model');
    const seconds = workSeconds(parsed.value, { samples: 64, sequence: 1024 }, profile([1, 2, 4], [2, 3, 6]));
    const shape = { first: false, last: false, layers: 1 };
    // A row of the widest activation is 1 KiB: 32 MiB hold 32,768 rows of it.
    for (const [samples, isInRuns] of [
      [32, false],
      [64, true],
    ] as const) {
      const layer = seconds({ op: 'F', shape, recomputed: 0, samples });
      const ahead = seconds({ op: 'R', shape, recomputed: 1, samples });
      const [bare, rest] = [{}, { isAhead: true } as const].map((how) =>
        seconds({ op: 'B', shape, recomputed: 0, samples, ...how }),
      );
      expect(ahead < layer).toBe(isInRuns);
      expect(ahead + (rest ?? 0) - (bare ?? 0)).toBeCloseTo(layer, 9);
    }
  });
});

describe('the donors at hand', () => {
  const [a, b, c] = [peerId('a'), peerId('b'), peerId('c')];
  const way = (peer: typeof a, roundTripMs: number | null, bytesPerSecond: number | null): LinkReport => ({
    ...{ peer, route: 'direct', roundTripMs, bytesPerSecond },
  });
  const said = (...links: readonly LinkReport[]) => ({ links, uploadBytesPerSecond: null });

  it('[AP4] are a cluster file: times over speed, memory, caps, and what both ends measured of a link', () => {
    const limits = {
      ...NO_LIMITS,
      speed: 0.5,
      memoryBytes: 5e8,
      uploadBytesPerSecond: 1e6,
      downloadBytesPerSecond: null,
    };
    const cluster = clusterAtHand(
      [
        { peer: a, profile: profile([1, 2, 4], [2, 3, 6]), limits },
        { peer: b, profile: profile([1, 1, 2]), limits: NO_LIMITS },
        { peer: c, profile: profile(), limits: NO_LIMITS },
      ],
      new Map([
        [a, said(way(b, 20, 2e6), way(c, 1, 1))],
        [b, said(way(a, 40, null))],
      ]),
    );
    expect(cluster.peers.map(({ id }) => id)).toEqual(['a', 'b']);
    expect(cluster.peers[0]).toMatchObject({
      ...{ memoryBytes: 5e8, uploadBytesPerSecond: 1e6, downloadBytesPerSecond: null },
      measured: { forwardSecondsPerLayer: [4, 6, 8], backwardSecondsPerLayer: [8, 12, 16] },
    });
    expect(cluster.links.pairs).toEqual([{ between: ['a', 'b'], latencySeconds: 0.02, bytesPerSecond: 2e6 }]);
    expect(parseCluster(JSON.parse(JSON.stringify(cluster)), 'c').ok).toBe(true);
  });

  it('have the line that their links showed, or that they had when they were here last', () => {
    const before = { uploadBytesPerSecond: 7e5, downloadBytesPerSecond: 9e5 };
    const donors = [a, b].map((peer) => ({ peer, profile: { ...profile([1, 1, 2]), ...before }, limits: NO_LIMITS }));
    const { peers } = clusterAtHand(donors, new Map([[a, said(way(b, 20, 2e6))]]));
    expect(peers.map(({ id, uploadBytesPerSecond: up, downloadBytesPerSecond: down }) => [id, up, down])).toEqual([
      ['a', 2e6, 9e5],
      ['b', 7e5, 9e5],
    ]);
  });

  describe('behind one router', () => {
    const donors = [a, b, c].map((peer) => ({ peer, profile: profile([1, 1, 2]), limits: NO_LIMITS }));
    const home = { line: 'home' } as const;
    const uploads = (...reports: readonly (readonly [typeof a, ReportedLinks])[]) =>
      clusterAtHand(donors, new Map(reports)).peers.map((peer) => peer.uploadBytesPerSecond);

    it('each has an equal part of what one of them alone was measured to send', () => {
      const elsewhere = [c, said()] as const;
      expect(
        uploads([a, { ...said(way(c, 40, 2e6)), ...home }], [b, { ...said(way(c, 40, 3e6)), ...home }], elsewhere),
      ).toEqual([1e6, 1.5e6, null]);
    });

    it('what was measured while the others worked too is its part; with more of them at hand it is less, with fewer no more', () => {
      const d = peerId('d');
      const more = [...donors, { peer: d, profile: profile([1, 1, 2]), limits: NO_LIMITS }];
      const report = { ...said(way(d, 40, 3e6)), ...home, measuredWith: 2 };
      const inHome = (...peers: readonly (typeof a)[]) =>
        clusterAtHand(
          more,
          new Map<typeof a, ReportedLinks>([...peers.map((peer) => [peer, report] as const), [d, said()]]),
        ).peers.flatMap(({ id, uploadBytesPerSecond: up }) => (peers.some((peer) => peer === id) ? up : []));
      expect(inHome(a, b)).toEqual([3e6, 3e6]);
      expect(inHome(a, b, c)).toEqual([2e6, 2e6, 2e6]);
      expect(inHome(a)).toEqual([3e6]);
    });

    it('a line that nobody measured is a good one, and all of them share that', () => {
      expect(uploads([a, { ...said(), ...home }], [b, { ...said(), ...home }], [c, said()])).toEqual([
        2.5e6,
        2.5e6,
        null,
      ]);
    });

    it('what they send each other says nothing of their line', () => {
      const inside = (other: typeof a) => ({ ...said(way(other, 1, 9e7)), uploadBytesPerSecond: 9e7, ...home });
      expect(uploads([a, inside(b)], [b, inside(a)], [c, said()])).toEqual([2.5e6, 2.5e6, null]);
      const both = { ...said(way(b, 1, 9e7), way(c, 40, 2e6)), uploadBytesPerSecond: 9e7, ...home };
      expect(uploads([a, both], [b, inside(a)], [c, said()])[0]).toBe(1e6);
    });

    it('a limit that a donor set itself is its own', () => {
      const limited = { ...NO_LIMITS, uploadBytesPerSecond: 4e5 };
      const { peers } = clusterAtHand(
        donors.map((donor) => (donor.peer === a ? { ...donor, limits: limited } : donor)),
        new Map([a, b].map((peer) => [peer, { ...said(way(c, 40, 2e6)), ...home }])),
      );
      expect(peers.map((peer) => peer.uploadBytesPerSecond)).toEqual([4e5, 1e6, null]);
    });
  });

  it('have good links until one is measured', () => {
    const donors = [a, b].map((peer) => ({ peer, profile: profile([1, 1, 2]), limits: NO_LIMITS }));
    const { links } = clusterAtHand(donors, new Map([[a, said(way(b, null, null))]]));
    expect(links).toEqual({ default: { latencySeconds: 0.01, bytesPerSecond: 5e6 }, regions: [], pairs: [] });
  });
});
