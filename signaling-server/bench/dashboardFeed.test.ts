import { expect, test } from 'vitest';
import { arrayOf } from '../../swarm/base.ts';
import { decodeWatchMessage, stepTimelineSchema } from '../../swarm/messages/watch.ts';
import { DashboardFeed } from './dashboardFeed.ts';

const DONORS = 64;

test('a simulated run is one that a dashboard understands, step by step, and the same again', () => {
  const [feed, again] = [new DashboardFeed(DONORS), new DashboardFeed(DONORS)];
  const received = arrayOf(3, () => {
    const message = decodeWatchMessage(JSON.stringify(feed.next()));
    if (!message.ok) throw new Error(message.reason);
    return message.value;
  });
  expect(received.map(({ snapshot }) => snapshot.donors.length)).toEqual([DONORS, DONORS, DONORS]);
  const [first, second] = received;
  expect(second?.recent.map(({ step }) => step)).toEqual([(first?.recent.at(-1)?.step ?? 0) + 1]);
  const members = first?.plan?.stages.flatMap((stage) => stage.members.map(({ peer }) => peer));
  expect(members?.toSorted()).toEqual(first?.snapshot.donors.map(({ peer }) => String(peer)).toSorted());
  const timeline = stepTimelineSchema.parse(feed.timeline(second?.recent[0]?.step ?? 0));
  expect(timeline.measured.length).toBe(timeline.predicted.length);
  expect(new Set(timeline.measured.map(([peer]) => peer)).size).toBe(DONORS);
  expect(JSON.parse(JSON.stringify(again.next().recent))).toEqual(first?.recent);
});
