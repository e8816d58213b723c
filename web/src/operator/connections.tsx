/** How the donors reach each other: pairs by their way, why some are relayed, and the links that were lost. */
import { useMemo } from 'preact/hooks';
import type { RelayReason } from '../../../swarm/messages/profile.ts';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import type { WatchedEvent } from '../../../swarm/messages/watch.ts';
import { counted } from '../../../swarm/quantityText.ts';
import { turnErrorText } from '../page/turnErrorText.ts';
import { eventText } from './eventText.ts';
import { type Pair, pairsOf } from './peerRows.ts';
import type { Link } from './swarmShape.ts';

/** Of each kind; the table of links and the history have all. */
const MOST_NAMED = 8;

const REASONS: Readonly<Record<RelayReason, string>> = {
  hidden: 'one of the two hides its address from other donors',
  noAddress: 'the browser found no address of its own to offer',
  noConnection: 'the browser makes no more connections until it has cleared away closed ones; it is tried again',
  failed: 'no direct connection worked, because of a firewall or a strict router; a TURN server helps',
  noAnswer:
    'no direct connection opened within 15 seconds, because of a firewall or a strict router; a TURN server helps',
  otherEnd: 'the other donor gave up first',
  server: 'the server asked for it: their connection broke again and again, or it had to see what they send each other',
};

interface ConnectionsProps {
  readonly links: readonly Link[];
  readonly events: readonly WatchedEvent[];
  readonly turnErrors: NonNullable<Snapshot['turnErrors']>;
}

export function Connections({ links, events, turnErrors }: ConnectionsProps) {
  const pairs = useMemo(() => pairsOf(links), [links]);
  const relayed = pairs.filter(({ route }) => route === 'relayed');
  const lost = events.flatMap((event) => (event.kind === 'fault' && event.reason === 'linkLost' ? event : []));
  const counts = `${pairs.length - relayed.length} direct, ${relayed.length} relayed through the server`;
  return (
    <div class="reach">
      <p class="soft small">
        {pairs.length === 0 ? 'No donors are connected to each other.' : `Pairs of donors: ${counts}.`}
        {lost.length > 0 && ` Links lost: ${lost.length}.`}
      </p>
      {turnErrors.map(({ donors, ...error }) => (
        <p class="notice small" key={`${error.url} ${error.code}`}>
          <span aria-hidden="true">▲ </span>
          TURN server {turnErrorText(error)}: {counted(donors, 'donor')} found so.
        </p>
      ))}
      {relayed.length + lost.length > 0 && (
        <details>
          <summary class="small">Pairs without a direct connection, and why</summary>
          <ul class="reasons small">
            {relayed.slice(0, MOST_NAMED).map((pair) => (
              <li key={`${pair.a} ${pair.b}`}>{relayedText(pair)}</li>
            ))}
            {relayed.length > MOST_NAMED && <li>and {relayed.length - MOST_NAMED} more pairs</li>}
            {lost
              .slice(-MOST_NAMED)
              .toReversed()
              .map((event) => (
                <li key={event.id}>
                  <span aria-hidden="true">⚡ </span>
                  {`after ${event.step} steps: ${event.peer} ${eventText(event)}`}
                </li>
              ))}
          </ul>
        </details>
      )}
    </div>
  );
}

const relayedText = ({ a, b, why }: Pair): string => `${a} ↔ ${b} relayed${why === null ? '' : `: ${REASONS[why]}`}`;
