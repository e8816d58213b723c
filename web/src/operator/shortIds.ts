/**
 * Donors' ids in the server's sentences as they stand everywhere else: six characters of twelve. Only ids that are known to be
 * donors', so that no word, and no name out of a cluster file, is cut. Pure.
 */
import type { WatchedEvent, WatchMessage } from '../../../swarm/messages/watch.ts';
import { shortId } from '../page/format.ts';

export type KnownIds = ReadonlySet<string>;

/** With whoever a message names beside those known so far; the same set where it names nobody new. */
export function idsOf(known: KnownIds, { snapshot, peers = [], events }: WatchMessage): KnownIds {
  const named = [
    ...snapshot.donors.map(({ peer }) => peer),
    ...peers.map(({ peer }) => peer),
    ...events.flatMap((event) => ('peer' in event ? event.peer : [])),
  ];
  return named.every((peer) => known.has(peer)) ? known : new Set([...known, ...named]);
}

/** An id is letters, digits, `-` and `_`, and so is a word. */
export const withShortIds = (text: string, known: KnownIds): string =>
  text.replaceAll(/[\w-]+/g, (word) => (known.has(word) ? shortId(word) : word));

/** The sentences that an event brings along. */
export function withShortTexts<Event extends WatchedEvent>(event: Event, known: KnownIds): Event {
  const short = (text: string): string => withShortIds(text, known);
  return {
    ...event,
    ...('reason' in event && event.kind !== 'fault' ? { reason: short(event.reason) } : {}),
    ...('detail' in event && event.detail !== undefined ? { detail: short(event.detail) } : {}),
    ...('what' in event ? { what: short(event.what) } : {}),
  };
}
