import { describe, expect, test } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import { spansOf } from '../../../swarm/testing/timelineText.ts';
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
  epoch: 3,
  stages: [
    { layers: [0, 1] as [number, number], members: [member('aaaaaa')], copies: ['bbbbbb'] },
    { layers: [1, 2] as [number, number], members: [member('bbbbbb')], copies: [] },
  ],
};
const link = (from: string, peer: string, part: Partial<Link> = {}): Link => ({
  ...{ from: peerId(from), peer: peerId(peer), route: 'direct', roundTripMs: 1, bytesPerSecond: 2e6 },
  ...part,
});

describe('what holds a step up', () => {
  const [A, B] = [peerId('aaaaaa'), peerId('bbbbbb')];
  const timeline = [
    ...spansOf(A, '0F0 0-1, 0F1 1-2, 0B0 6-8, 0B1 9-10'),
    ...spansOf(B, '1F0 1-3, 1B0 3-6, 1F1 6-7, 1B1 7-9'),
  ];

  test('a donor, a line, the number of parts or nothing, each in a sentence', () => {
    const use = useOf(timeline, PLAN);
    expect(use.peers.map(longestNamedWait)).toEqual([
      { whom: B, seconds: 5 },
      { whom: A, seconds: 1 },
    ]);
    const limit: NonNullable<Snapshot['limit']> = { epoch: 3, kind: 'compute', peers: [B], gain: 0.31 };
    expect(bottleneckText(use, PLAN, limit)).toBe(
      'bbbbbb in stage 2 holds the step up: with twice its speed it would take 31 % less.',
    );
    expect(bottleneckText(use, PLAN, { ...limit, kind: 'line', peers: [A, B] })).toMatch(
      /^The connection between aaaaaa and bbbbbb holds the step up: with twice the rate/,
    );
    expect(bottleneckText(use, PLAN, { ...limit, kind: 'parts', peers: [] })).toMatch(/in flight hold the step up/);
    expect(bottleneckText(use, PLAN, { ...limit, gain: 0.01 })).toBe('Nothing alone holds the step up.');
    // Of a step under another plan only that is said which was measured.
    expect(bottleneckText(use, PLAN, { ...limit, epoch: 4 })).toBe('bbbbbb worked longest: 80 % of the step.');
    expect(use.peers.map((own) => ownWaitText(own, use.seconds))).toEqual([
      'waits 5.0 s for bbbbbb',
      'waits 1.0 s for aaaaaa',
    ]);
    // A long step makes little of the same second.
    expect(use.peers.map((own) => ownWaitText(own, 30))).toEqual(['waits 5.0 s for bbbbbb', '']);
    expect(bottleneckText(useOf([], PLAN), PLAN, limit)).toBe('No step of this plan has been measured yet.');
    const alone = {
      epoch: 3,
      stages: [{ layers: [0, 2] as [number, number], members: [member('aaaaaa')], copies: ['bbbbbb'] }],
    };
    expect(bottleneckText(useOf(spansOf(A, '0F0 0-1'), alone), alone, limit)).toContain('at work 100 %');
  });
});

describe('links between stages', () => {
  test('both directions are one: the slower rate, relayed where either is', () => {
    const links = [link('aaaaaa', 'bbbbbb', { bytesPerSecond: 9e6 }), link('bbbbbb', 'aaaaaa', { route: 'relayed' })];
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
  expect(copiesText(['bbbbbb', 'cccccc'])).toBe('Copies kept by bbbbbb, cccccc.');
  expect(copiesText([...'abcdefg'])).toBe('Copies kept by 7 donors.');
});
