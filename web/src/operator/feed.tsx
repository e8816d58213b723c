/** What changed, newest first: the few events that an operator would be told of by somebody who had watched. */
import type { WatchedEvent } from '../../../swarm/messages/watch.ts';
import { shortId, timeText } from '../page/format.ts';
import { eventDetail, eventText, peerOf } from './eventText.ts';
import { EVENT_SIGNS } from './marks.ts';

const SHOWN = 7;

export function Feed({ events }: { readonly events: readonly WatchedEvent[] }) {
  // Of the many saves the newest one says it all.
  const saved = events.findLast(({ kind }) => kind === 'checkpoint');
  const told = events.filter((event) => event.kind !== 'checkpoint' || event === saved);
  const newest = told.slice(-SHOWN).toReversed();
  return (
    <section class="card" aria-labelledby="feed">
      <div class="live-head">
        <h2 id="feed">What changed</h2>
        <a href="#history">All of it</a>
      </div>
      {/* A row stays where it is and its words change: what comes new moves nothing that somebody reads. */}
      <ol class="feed">
        {newest.length === 0 && <li class="soft">Nothing yet.</li>}
        {newest.map((event, row) => (
          <Row key={row} event={event} />
        ))}
      </ol>
    </section>
  );
}

function Row({ event }: { readonly event: WatchedEvent }) {
  const words = wordsOf(event);
  return (
    <li title={[words, eventDetail(event)].filter(Boolean).join(' · ')}>
      <span class={`mark ${EVENT_SIGNS[event.kind].tone}`} aria-hidden="true">
        {EVENT_SIGNS[event.kind].glyph}
      </span>
      <span>
        <time class="soft" dateTime={new Date(event.atMs).toISOString()}>
          {timeText(event.atMs)}
        </time>{' '}
        {words}
      </span>
    </li>
  );
}

function wordsOf(event: WatchedEvent): string {
  const peer = peerOf(event);
  const words = [EVENT_SIGNS[event.kind].word, peer === null ? '' : shortId(peer)].filter(Boolean).join(' ');
  const text = eventText(event);
  return `${words}${text === '' ? (event.kind === 'checkpoint' ? ` after step ${event.step}` : '') : `: ${text}`}`;
}
