import { expect, it } from 'vitest';
import { type PeerId, peerId } from '../base.ts';
import type { PlanInForce } from '../coordinator/state.ts';
import type { MeetingOwners } from '../messages/meetingWords.ts';
import type { MetMessage } from '../messages/messages.ts';
import { type Meeting, NO_MEETINGS } from './meeting.ts';
import { outcomeOf } from './meetingOutcome.ts';

const peers = (names: string): PeerId[] => [...names].map(peerId);
const BLOCK = 'head';
/** Each has an island of its own, and keeps everything. */
const PLANS = peers('abcdef').map((peer, island) => ({
  ...{ epoch: island + 1, plan: { islands: [island], state: [{ block: BLOCK, shards: [keptBy(peer)] }] } },
  duties: [],
})) as unknown as PlanInForce[];
function keptBy(peer: PeerId) {
  return { peer, range: [0, 100] as const, replicas: [] };
}
/** o is in no plan. */
const owners = (have: string, keep = have): MeetingOwners => ({
  ranges: [{ block: BLOCK, range: [0, 100], have: peers(have), keep: peers(keep) }],
});

/** "ab": a and b say the same. `own`: of what is shared. */
function outcome(of: MeetingOwners | null, sides: readonly string[], own: readonly string[] = []) {
  const digest = (side: number): string => `${side}`.padEnd(22, '-');
  const part = { block: BLOCK, range: [0, 100] as const };
  const met = [...new Set(peers(sides.join('')))].map((peer) => {
    const owned = own.findIndex((side) => side.includes(peer));
    const said = {
      digests: [{ ...part, digest: digest(sides.findIndex((side) => side.includes(peer))) }],
      ...(owned < 0 ? {} : { owned: [{ ...part, digest: digest(owned) }] }),
    } as unknown as MetMessage;
    return { peer, said };
  });
  const meeting = { ...NO_MEETINGS, owners: of, met } as unknown as Meeting;
  const found = outcomeOf(meeting, PLANS);
  if (found.of !== 'unequal') return found.of;
  const [against, atOdds] = [found.against, found.atOdds].map((pairs) => pairs.map((pair) => pair.join('>')).join(' '));
  return `few ${found.few.join('')} against ${against} odds ${atOdds}`;
}

it.each([
  ['all have the same', owners('ab'), ['abcdef'], ['ab'], 'whole'],
  ['no owners: most are right', null, ['abcde', 'f'], [], 'few f against  odds '],
  [
    'no owners: nobody is',
    null,
    ['abc', 'de', 'f'],
    [],
    'few  against  odds a>d a>e a>f b>d b>e b>f c>d c>e c>f d>f e>f',
  ],
  [
    'all took what the owner published, but its copy worked out something else',
    owners('ab'),
    ['acdef', 'b'],
    ['ab'],
    'few  against  odds a>b',
  ],
  [
    'the owner published to all what neither it nor its copy says',
    owners('ab'),
    ['ab', 'cdef'],
    ['ab'],
    'few  against c>a d>a e>a f>a odds ',
  ],
  ['it did to few, or they say so', owners('ab'), ['abcde', 'f'], ['ab'], 'few f against f>a odds '],
  ['it did to as many', owners('ab'), ['abcd', 'ef'], ['ab'], 'few ef against e>a f>a odds '],
  ['workers who did so bear it out for nobody', owners('ab'), ['abc', 'def'], ['ab'], 'few  against d>a e>a f>a odds '],
  ['two words', owners('ab'), ['abcdef'], ['a', 'b'], 'few  against  odds a>b'],
  [
    'nobody who keeps it, or is in a plan, owns it',
    owners('o', 'op'),
    ['op', 'abcdef'],
    ['op'],
    'few  against a>o b>o c>o d>o e>o f>o odds ',
  ],
])('[IS114] [IS122] %s', (_, of, sides, own, found) => {
  expect(outcome(of, sides, own)).toBe(found);
});
