/** The ways between donors. Each direction by itself: both ends measure their own way to the other. */
import { useState } from 'preact/hooks';
import { byteRateText, millisecondsText, ROUTES, trafficText } from '../page/format.ts';
import { Chip } from '../page/parts.tsx';
import { type Column, heads, numbers, Stacks } from '../page/stacks.tsx';
import { DrawnWhenSeen } from './drawnWhenSeen.tsx';
import type { OperatorState } from './state.ts';
import type { Link } from './swarmShape.ts';

/** Rows that are drawn unasked. */
const MOST_ROWS = 40;

const COLUMNS: readonly Column<Link>[] = [
  heads('From → to', ({ from, peer }) => (
    <span title={`${from} → ${peer}`}>
      {from} → {peer}
    </span>
  )),
  {
    name: 'Way',
    beside: '',
    of: ({ route, streams }) => (
      <>
        <Chip {...ROUTES[route]} />
        {streams !== undefined && ` ${streams} connections`}
      </>
    ),
  },
  numbers('Round trip', ({ roundTripMs }) => millisecondsText(roundTripMs)),
  numbers('Rate', ({ bytesPerSecond }) => byteRateText(bytesPerSecond)),
];

interface LinksProps {
  readonly links: readonly Link[];
  /** Bytes through the server itself, since it began. */
  readonly served: OperatorState['served'];
}

export function Links({ links, served }: LinksProps) {
  const [isWhole, whole] = useState(false);
  const shown = isWhole ? links : links.slice(0, MOST_ROWS);
  return (
    <div class="card">
      <h2 id="links">Links</h2>
      {links.length === 0 && <p class="soft empty">Nothing is sent between donors yet.</p>}
      {links.length > 0 && (
        <Stacks
          labelledBy="links"
          columns={COLUMNS}
          rows={shown}
          drawn={(cells, { from, peer }) => (
            <DrawnWhenSeen key={`${from} ${peer}`} tag="tr">
              {cells}
            </DrawnWhenSeen>
          )}
        />
      )}
      {served && Object.values(served).some((bytes) => bytes > 0) && (
        <p class="soft small served">
          {`Since it started, the server itself has sent donors ${trafficText(served.tokens)} of text and ${trafficText(served.state + served.base)} of the model, and received ${trafficText(served.checkpoint)} of saves.`}
        </p>
      )}
      {links.length > MOST_ROWS && (
        <p class="buttons">
          <button type="button" onClick={() => whole(!isWhole)}>
            {isWhole ? 'Fewer links' : `All ${links.length} links`}
          </button>
        </p>
      )}
    </div>
  );
}
