/** Who is here. */
import { adapterText, countText, NOTHING, rangeText, shortId } from '../page/format.ts';
import { Chip } from '../page/parts.tsx';
import { DONOR_STATES } from './signs.ts';
import type { SectionProps } from './view.tsx';

export function PeersSection({ snapshot: { donors } }: SectionProps) {
  return (
    <div class="card">
      <h2 id="donors">Donors</h2>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
      <section class="table" aria-labelledby="donors" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">Donor</th>
              <th scope="col">State</th>
              <th scope="col">Stage</th>
              <th scope="col">Layers</th>
              <th scope="col" class="number">
                Tokens
              </th>
              <th scope="col">Adapter</th>
            </tr>
          </thead>
          <tbody>
            {donors.map(({ peer, adapter, state, stages, tokens }) => (
              <tr key={peer}>
                <th scope="row" title={peer}>
                  {shortId(peer)}
                </th>
                <td>
                  <Chip {...DONOR_STATES[state]} />
                </td>
                <td>{stages.map(({ stage }) => stage + 1).join(', ') || NOTHING}</td>
                <td>{stages.map(({ layers }) => rangeText(layers)).join(', ') || NOTHING}</td>
                <td class="number">{countText(tokens)}</td>
                <td class="adapter">
                  {adapterText(adapter)}
                  {adapter.software && ' (software)'}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {donors.length === 0 && (
        <p class="soft empty">
          Nobody is here. Donors open the <a href="/">start page</a> of this server.
        </p>
      )}
    </div>
  );
}
