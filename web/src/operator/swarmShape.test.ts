import { describe, expect, test } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import {
  bottleneckText,
  type Link,
  linksBehind,
  linksByEnds,
  longestWait,
  paceOf,
  type WireSpan,
  waysText,
  workOf,
} from './swarmShape.ts';

const member = (peer: string, microBatches = [0, 1]) => ({
  ...{ peer, microBatches, samples: microBatches.length },
  recompute: [],
});
const PLAN = {
  stages: [
    { layers: [0, 1] as [number, number], members: [member('aaaaaaaa')] },
    { layers: [1, 2] as [number, number], members: [member('bbbbbbbb')] },
  ],
};
const link = (from: string, peer: string, part: Partial<Link> = {}): Link => ({
  ...{ from: peerId(from), peer: peerId(peer), route: 'direct', roundTripMs: 1, bytesPerSecond: 2e6 },
  ...part,
});

describe('who waits for whom', () => {
  // a: 0–1, 1–2, waits for b until 6, 6–8, waits until 9, 9–11. b: waits until 1, then works to 9, but for nothing.
  const spans: WireSpan[] = [
    ['aaaaaaaa', '0F0', 0, 1],
    ['aaaaaaaa', '0F1', 1, 2],
    ['bbbbbbbb', '1F0', 1, 3],
    ['bbbbbbbb', '1B0', 3, 6],
    ['bbbbbbbb', '1F1', 6, 7],
    ['bbbbbbbb', '1B1', 7, 9],
    ['aaaaaaaa', '0B0', 6, 8],
    ['aaaaaaaa', '0B1', 9, 10],
  ];

  test('a forward waits for the stage before, a backward for the one behind', () => {
    const { seconds, peers } = workOf(spans, PLAN);
    expect(seconds).toBe(10);
    expect(peers.map(({ peer, busySeconds, waits }) => [peer, busySeconds, [...waits]])).toEqual([
      ['aaaaaaaa', 5, [['bbbbbbbb', 5]]],
      [
        'bbbbbbbb',
        8,
        [
          ['aaaaaaaa', 1],
          ['', 1],
        ],
      ],
    ]);
    expect(peers.map(longestWait)).toEqual([
      { whom: 'bbbbbbbb', seconds: 5 },
      { whom: 'aaaaaaaa', seconds: 1 },
    ]);
  });

  test('work that waits in a GPU’s queue is counted once', () => {
    const queued: WireSpan[] = [
      ['aaaaaaaa', '0F0', 0, 2],
      ['aaaaaaaa', '0F1', 0, 3],
    ];
    expect(workOf(queued, PLAN).peers[0]).toMatchObject({ busySeconds: 3 });
  });

  test('the bottleneck is a donor, a way, or neither, each in a sentence', () => {
    expect(bottleneckText(workOf(spans, PLAN), PLAN, [])).toBe(
      'bbbbbb in stage 2 is the bottleneck: at work 80 % of the step; aaaaaa waits for it 5.0 s a step.',
    );
    const far = spans.map(([peer, action, start, end]): WireSpan => [peer, action, 3 * start, 2 * start + end]);
    expect(bottleneckText(workOf(far, PLAN), PLAN, [link('bbbbbbbb', 'aaaaaaaa', { route: 'relayed' })])).toMatch(
      /^The way from bbbbbb to aaaaaa \(2.0 MB\/s, relayed\) is the bottleneck/,
    );
    const ways = [link('bbbbbbbb', 'aaaaaaaa'), link('aaaaaaaa', 'bbbbbbbb', { bytesPerSecond: 5e5 })];
    expect(bottleneckText(workOf(far, PLAN), PLAN, ways)).toContain(' (0.5 MB/s, direct) is the bottleneck');
    expect(bottleneckText(workOf([], PLAN), PLAN, [])).toBe('No step of this plan is measured yet.');
    const alone = { stages: [{ layers: [0, 2] as [number, number], members: [member('aaaaaaaa')] }] };
    expect(bottleneckText(workOf([['aaaaaaaa', '0F0', 0, 1]], alone), alone, [])).toContain('alone, 100 %');
  });
});

describe('links between stages', () => {
  test('both directions are one: the slower rate, relayed where either is', () => {
    const links = [
      link('aaaaaaaa', 'bbbbbbbb', { bytesPerSecond: 9e6 }),
      link('bbbbbbbb', 'aaaaaaaa', { route: 'relayed' }),
    ];
    const behind = linksBehind(PLAN, 0, linksByEnds(links));
    expect(behind).toMatchObject([{ route: 'relayed', bytesPerSecond: 2e6, fromPlace: 0, toPlace: 0 }]);
    expect(waysText([...behind, ...behind])).toBe('2 ways, 2 relayed; the slowest aaaaaa ↔ bbbbbb: 2.0 MB/s relayed');
    expect(linksBehind(PLAN, 1, linksByEnds(links))).toEqual([]);
    expect([null, 9e5, 1e6, 1e7].map(paceOf)).toEqual(['unknown', 'slow', 'fair', 'fast']);
  });
});
