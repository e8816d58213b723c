import { describe, expect, test } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import { NO_LIMITS } from '../../../swarm/limits.ts';
import type { RelayReason, Route } from '../../../swarm/messages/profile.ts';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import type { PeerFacts } from '../../../swarm/messages/watch.ts';
import { pairsOf, peerRows, sorted } from './peerRows.ts';

const adapter = { vendor: 'v', architecture: '', description: '<b>x</b>', software: false, browser: '' };
const donor = (peer: string, tokens = 0): Snapshot['donors'][number] => ({
  ...{ peer: peerId(peer), adapter, state: 'computing', stages: [], tokens },
});
const facts = (peer: string, seconds: number, speed = 1): PeerFacts => ({
  peer,
  name: null,
  limits: { ...NO_LIMITS, speed },
  profile: {
    layers: [{ samples: 2, forwardSeconds: seconds, backwardSeconds: seconds }],
    ...{ memoryBytes: 1e9, checkedKernels: 0 },
  },
  ...{ compute: 'f32' as const, faults: 0, predictedBytes: null, peakBytes: null },
});
const PLAN = {
  microBatches: [0, 1, 2].map((id) => ({ id, samples: [2 * id, 2 * id + 2] as [number, number] })),
  stages: [
    {
      layers: [0, 2] as [number, number],
      copies: ['b', 'd'],
      members: [
        { peer: 'a', microBatches: [0, 1], samples: 4, recompute: [] },
        { peer: 'b', microBatches: [2], samples: 2, recompute: [] },
      ],
    },
  ],
};

describe('rows of donors', () => {
  test('say why each has its size: its speed beside the fastest, or the planner’s own words', () => {
    const rows = peerRows(
      [donor('a'), donor('b'), donor('c'), donor('d')],
      [facts('a', 0.1), facts('b', 0.1, 0.5)],
      [PLAN],
      [{ peer: peerId('c'), text: 'left idle: with it a step takes longer' }],
    );
    expect(rows.map(({ layerSeconds }) => layerSeconds)).toEqual([0.1, 0.2, null, null]);
    expect(rows.map(({ copies }) => copies)).toEqual([[], [0], [], [0]]);
    expect(rows.map(({ why }) => why)).toEqual([
      '4 of 6 samples: as fast as the fastest',
      '2 of 6 samples: 50 % of the speed of the fastest; keeps copies of stage 1',
      'left idle: with it a step takes longer',
      'keeps copies of stage 1',
    ]);
  });

  test('who computes in an island under another plan has the samples and copies of that one', () => {
    const member = { peer: 'e', microBatches: [0, 1, 2], samples: 6, recompute: [] };
    const beside = { ...PLAN, stages: [{ layers: [0, 2] as [number, number], copies: ['f'], members: [member] }] };
    const rows = peerRows([donor('a'), donor('e'), donor('f')], [], [PLAN, beside], []);
    expect(rows.map(({ samples, copies, why }) => [samples, copies, why])).toEqual([
      [4, [], '4 of 6 samples'],
      [6, [], '6 of 6 samples'],
      [0, [0], 'keeps copies of stage 1'],
    ]);
  });

  test('are sorted by any column, equal ones in the order of joining', () => {
    const rows = peerRows([donor('c', 5), donor('a', 9), donor('b', 5)], [], [], []);
    const order = (by: 'peer' | 'tokens', isDescending: boolean) =>
      sorted(rows, { by, isDescending }).map(({ peer }) => String(peer));
    expect(order('peer', false)).toEqual(['a', 'b', 'c']);
    expect(order('tokens', true)).toEqual(['a', 'c', 'b']);
    expect(order('tokens', false)).toEqual(['c', 'b', 'a']);
  });

  test('a pair is relayed where one of its directions is, for the reason of who gave up first', () => {
    const link = (from: string, peer: string, route: Route, why?: RelayReason) => ({
      ...{ from: peerId(from), peer: peerId(peer), route, ...(why && { why }) },
      ...{ roundTripMs: null, bytesPerSecond: null },
    });
    expect(
      pairsOf([
        link('a', 'b', 'direct'),
        link('b', 'a', 'relayed', 'failed'),
        link('a', 'c', 'direct'),
        link('c', 'a', 'direct'),
        link('b', 'c', 'relayed', 'noAddress'),
        link('c', 'b', 'relayed', 'otherEnd'),
      ]),
    ).toEqual([
      { a: 'a', b: 'b', route: 'relayed', why: 'failed' },
      { a: 'a', b: 'c', route: 'direct', why: null },
      { a: 'b', b: 'c', route: 'relayed', why: 'noAddress' },
    ]);
  });
});
