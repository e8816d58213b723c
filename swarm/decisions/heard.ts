/**
 * What donors heard of each other's islands at a meeting that came to different things: a donor that tells each something else
 * is at odds with all of them, and who only works out something else, or says so, with those who have heard the same. Pure.
 */
import { overlap, type PeerId, pushToKey } from '../base.ts';
import type { Pair } from '../coordinator/events.ts';
import { type PlanInForce, shardKey } from '../coordinator/state.ts';
import { MOST_HEARD } from '../messages/meetingWords.ts';
import type { MetMessage } from '../messages/messages.ts';
import { expectedOf, type Meeting } from './meeting.ts';

interface Heard {
  readonly speaker: PeerId;
  /** By digest, who said it. */
  readonly words: Map<string, PeerId[]>;
}

/** Who heard something else of an island than its speaker, the primary of that range, says: the hearer first. Each pair once. */
export function heardDifferently(
  met: readonly { readonly peer: PeerId; readonly said: MetMessage }[],
  plans: readonly PlanInForce[],
): Pair[] {
  const pairs = new Map<string, Pair>();
  for (const { speaker, words } of heardIn(met, plans).values()) {
    if (words.size < 2) continue;
    for (const peers of words.values())
      if (!peers.includes(speaker)) for (const peer of peers) pairs.set(`${peer} ${speaker}`, [peer, speaker]);
  }
  return [...pairs.values()];
}

/** Who may have had more to say of what it heard than goes into a message, and said nothing. */
export function tooMuchHeard(meeting: Meeting, plans: readonly PlanInForce[]): PeerId[] {
  const expected = expectedOf(meeting, plans);
  const islands = meeting.steps.filter((steps) => steps > 0).length;
  return meeting.met.flatMap(({ peer, said }) => {
    const digests = (expected.get(peer)?.size ?? 0) * islands;
    return said.heard === undefined && digests > MOST_HEARD ? peer : [];
  });
}

function heardIn(
  met: readonly { readonly peer: PeerId; readonly said: MetMessage }[],
  plans: readonly PlanInForce[],
): Map<string, Heard> {
  const planOf = new Map(plans.flatMap(({ plan }) => (plan.islands ?? []).map((island) => [island, plan] as const)));
  const found = new Map<string, Heard>();
  for (const { peer, said } of met)
    for (const { block, range, islands, digests } of said.heard ?? [])
      for (const [place, island] of islands.entries()) {
        const shards = planOf.get(island)?.state.find((one) => one.block === block)?.shards ?? [];
        const speaker = shards.find((shard) => overlap(shard.range, range) !== null)?.peer;
        const digest = digests[place];
        if (speaker === undefined || digest === undefined) continue;
        const key = `${island} ${shardKey(block, range)}`;
        const own = found.get(key) ?? { speaker, words: new Map<string, PeerId[]>() };
        found.set(key, own);
        pushToKey(own.words, digest, peer);
      }
  return found;
}
