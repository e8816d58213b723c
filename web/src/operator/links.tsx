/** The ways between donors. Each direction by itself: both ends measure their own way to the other. */
import { useState } from 'preact/hooks';
import { byteRateText, millisecondsText, ROUTES, shortId, trafficText } from '../page/format.ts';
import { Chip } from '../page/parts.tsx';
import { Sight } from './sight.tsx';
import type { OperatorState } from './state.ts';
import type { Link } from './swarmShape.ts';

/** Rows that are drawn unasked. */
const MOST_ROWS = 40;

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
      {links.length === 0 && <p class="soft empty">No donor sends another one anything.</p>}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
      <section class="table" aria-labelledby="links" tabIndex={0} hidden={links.length === 0}>
        <table>
          <thead>
            <tr>
              <th scope="col">From</th>
              <th scope="col">To</th>
              <th scope="col">Way</th>
              <th scope="col" class="number">
                Round trip
              </th>
              <th scope="col" class="number">
                Rate
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map(({ from, peer, route, roundTripMs, bytesPerSecond }) => (
              <Sight key={`${from} ${peer}`} tag="tr">
                <th scope="row" title={from}>
                  {shortId(from)}
                </th>
                <td title={peer}>{shortId(peer)}</td>
                <td>
                  <Chip {...ROUTES[route]} />
                </td>
                <td class="number">{millisecondsText(roundTripMs)}</td>
                <td class="number">{byteRateText(bytesPerSecond)}</td>
              </Sight>
            ))}
          </tbody>
        </table>
      </section>
      {served && (
        <p class="soft small served">
          {`Since it began the server itself sent donors ${trafficText(served.tokens)} of text and ${trafficText(served.state)} of weights, and took ${trafficText(served.checkpoint)} of checkpoints from them.`}
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
