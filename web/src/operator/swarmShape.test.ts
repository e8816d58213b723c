import { describe, expect, test } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import { spansOf } from '../../../swarm/testing/timelineText.ts';
import { shifted } from '../../../swarm/timeline/timeline.ts';
import { useOf } from '../../../swarm/timeline/waits.ts';
import {
  bottleneckText,
  copiesText,
  type Link,
  linkClass,
  linksBehind,
  linksByEnds,
  longestNamedWait,
  ownWaitText,
  waysText,
} from './swarmShape.ts';

const member = (peer: string, microBatches = [0, 1]) => ({
  ...{ peer, microBatches, samples: microBatches.length },
  recompute: [],
});
const PLAN = {
  stages: [
    { layers: [0, 1] as [number, number], members: [member('aaaaaaaa')], copies: ['bbbbbbbb'] },
    { layers: [1, 2] as [number, number], members: [member('bbbbbbbb')], copies: [] },
  ],
};
const link = (from: string, peer: string, part: Partial<Link> = {}): Link => ({
  ...{ from: peerId(from), peer: peerId(peer), route: 'direct', roundTripMs: 1, bytesPerSecond: 2e6 },
  ...part,
});

describe('what holds a step up', () => {
  const [A, B] = [peerId('aaaaaaaa'), peerId('bbbbbbbb')];
  const timeline = [
    ...spansOf(A, '0F0 0-1, 0F1 1-2, 0B0 6-8, 0B1 9-10'),
    ...spansOf(B, '1F0 1-3, 1B0 3-6, 1F1 6-7, 1B1 7-9'),
  ];

  test('the bottleneck is a donor, a way, or neither, each in a sentence', () => {
    const use = useOf(timeline, PLAN);
    expect(use.peers.map(longestNamedWait)).toEqual([
      { whom: B, seconds: 5 },
      { whom: A, seconds: 1 },
    ]);
    expect(bottleneckText(use, PLAN, [])).toBe(
      'bbbbbb in stage 2 is the bottleneck: at work 80 % of the step; aaaaaa waits for it 5.0 s a step.',
    );
    expect(use.peers.map((own) => ownWaitText(own, use.seconds))).toEqual([
      'waits 5.0 s for bbbbbb',
      'waits 1.0 s for aaaaaa',
    ]);
    // A long step makes little of the same second.
    expect(use.peers.map((own) => ownWaitText(own, 30))).toEqual(['waits 5.0 s for bbbbbb', '']);
    const far = timeline.map((span) => shifted(span, 2 * span.startSeconds));
    expect(bottleneckText(useOf(far, PLAN), PLAN, [link('bbbbbbbb', 'aaaaaaaa', { route: 'relayed' })])).toMatch(
      /^The connection from bbbbbb to aaaaaa \(2.0 MB\/s, relayed\) is the bottleneck/,
    );
    const ways = [link('bbbbbbbb', 'aaaaaaaa'), link('aaaaaaaa', 'bbbbbbbb', { bytesPerSecond: 5e5 })];
    expect(bottleneckText(useOf(far, PLAN), PLAN, ways)).toContain(' (0.5 MB/s, direct) is the bottleneck');
    expect(bottleneckText(useOf([], PLAN), PLAN, [])).toBe('No step of this plan has been measured yet.');
    const alone = {
      stages: [{ layers: [0, 2] as [number, number], members: [member('aaaaaaaa')], copies: ['bbbbbbbb'] }],
    };
    expect(bottleneckText(useOf(spansOf(A, '0F0 0-1'), alone), alone, [])).toContain('at work 100 %');
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
    expect(waysText([...behind, ...behind])).toBe(
      '2 connections, 2 relayed; the slowest aaaaaa ↔ bbbbbb: 2.0 MB/s relayed',
    );
    expect(linksBehind(PLAN, 1, linksByEnds(links))).toEqual([]);
    expect([null, 9e5, 1e6, 1e7].map(linkClass)).toEqual(['unknown', 'slow', 'fair', 'fast']);
  });
});

test('who keeps copies of a stage is named, of many how many', () => {
  expect(copiesText([])).toBe('No copies are kept.');
  expect(copiesText(['bbbbbbbb', 'cccccccc'])).toBe('Copies kept by bbbbbb, cccccc.');
  expect(copiesText([...'abcdefg'])).toBe('Copies kept by 7 donors.');
});
