/** Stages over peers: who computes what, how busy each was, and the ways between them. */

import { useMemo } from 'preact/hooks';
import { total } from '../../../swarm/base.ts';
import type { PlanInForce } from '../../../swarm/messages/watch.ts';
import { counted, layersText } from '../../../swarm/quantityText.ts';
import type { PeerUse, StepUse } from '../../../swarm/timeline/waits.ts';
import { byteRateText, NOTHING, percentText, ROUTES } from '../page/format.ts';
import { DrawnWhenSeen } from './drawnWhenSeen.tsx';
import {
  copiesText,
  type Link,
  type LinksByEnds,
  linkClass,
  linksBehind,
  linksByEnds,
  ownWaitText,
  type StageLink,
  waysText,
} from './swarmShape.ts';

/** Of one gap between stages, each by itself; more are one sentence. */
const MOST_NAMED = 4;
const BAND_HEIGHT = 30;

/** Of the widest stage, and of all: more donors wrap, each with its name and its bar alone, and their ways are a sentence. */
const MOST_WIDE = 12;
const MOST_IN_ALL = 48;

interface MapProps {
  readonly plan: PlanInForce;
  readonly links: readonly Link[];
  readonly use: StepUse | null;
}

export function SwarmMap({ plan, links, use }: MapProps) {
  const sizes = plan.stages.map(({ members }) => members.length);
  const most = Math.max(1, ...sizes);
  const isSmall = most > MOST_WIDE || total(sizes) > MOST_IN_ALL;
  const byEnds = useMemo(() => linksByEnds(links), [links]);
  const useOf = useMemo(() => new Map(use?.peers.map((each) => [each.peer, each])), [use]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <section class="map" aria-label="Stages and their donors" tabIndex={0}>
      <ol class={isSmall ? 'crowd' : ''} style={isSmall ? {} : { minWidth: `${most * 6.5}rem` }}>
        {plan.stages.map(({ layers }, stage) => (
          <DrawnWhenSeen key={layers[0]} tag="li" renew={plan}>
            <Stage
              plan={plan}
              stage={stage}
              byEnds={byEnds}
              seconds={use?.seconds ?? 0}
              useOf={useOf}
              isSmall={isSmall}
            />
          </DrawnWhenSeen>
        ))}
      </ol>
    </section>
  );
}

interface StageProps {
  readonly plan: PlanInForce;
  readonly stage: number;
  readonly byEnds: LinksByEnds;
  /** Of the step. */
  readonly seconds: number;
  readonly useOf: ReadonlyMap<string, PeerUse>;
  readonly isSmall: boolean;
}

function Stage({ plan, stage, byEnds, seconds, useOf, isSmall }: StageProps) {
  const { layers, members, copies } = plan.stages[stage] ?? { layers: [0, 0], members: [], copies: [] };
  // They change with the step that is shown, the ways between them with every message.
  const cells = useMemo(
    () =>
      members.map(({ peer, samples, recompute }, lane) => (
        <Cell
          // By its place: under another plan the cells stay, and have others in them.
          key={lane}
          peer={peer}
          samples={samples}
          recomputed={recompute.length}
          seconds={seconds}
          use={useOf.get(peer)}
          isSmall={isSmall}
        />
      )),
    [members, seconds, useOf, isSmall],
  );
  const band = useMemo(
    () => (
      <Band
        links={linksBehind(plan, stage, byEnds)}
        above={members.length}
        below={plan.stages[stage + 1]?.members.length ?? 0}
        isSmall={isSmall}
      />
    ),
    [plan, stage, byEnds, isSmall],
  );
  return (
    <>
      <h3>
        Stage {stage + 1}{' '}
        <span class="soft plain">
          {layersText(layers)}
          {isSmall && `, ${counted(members.length, 'donor')}`}
        </span>
      </h3>
      <ul
        class={isSmall ? 'cells small-cells' : 'cells'}
        style={isSmall ? {} : { gridTemplateColumns: `repeat(${members.length}, minmax(0, 1fr))` }}
      >
        {cells}
      </ul>
      <p class="soft small">{copiesText(copies)}</p>
      {band}
    </>
  );
}

interface CellProps {
  readonly peer: string;
  readonly samples: number;
  readonly recomputed: number;
  readonly seconds: number;
  readonly use: PeerUse | undefined;
  readonly isSmall: boolean;
}

function Cell({ peer, samples, recomputed, seconds, use, isSmall }: CellProps) {
  const share = use && seconds > 0 ? use.busySeconds / seconds : null;
  if (isSmall)
    return (
      <li class="cell" title={`${peer}: ${counted(samples, 'sample')}, at work ${percentText(share)}`}>
        <strong>{peer}</strong>
        <meter min={0} max={1} value={share ?? 0} aria-label={`${peer} at work`} />
      </li>
    );
  return (
    <li class="cell">
      <strong title={peer}>{peer}</strong>
      <span class="note">
        {counted(samples, 'sample')}
        {recomputed > 0 && `, ${recomputed} recomputed`}
      </span>
      <meter min={0} max={1} value={share ?? 0} aria-label={`${peer} at work`} />
      <span class="note">at work {share === null ? NOTHING : percentText(share)}</span>
      <span class="note">{ownWaitText(use, seconds) || '\u00a0'}</span>
    </li>
  );
}

interface BandProps {
  readonly links: readonly StageLink[];
  readonly above: number;
  readonly below: number;
  readonly isSmall: boolean;
}

function Band({ links, above, below, isSmall }: BandProps) {
  if (below === 0) return null;
  if (isSmall)
    return (
      <p class="soft small">
        {links.length === 0 ? 'No connection to the next stage has been measured yet.' : waysText(links)}
      </p>
    );
  return (
    <div class="band">
      <svg viewBox={`0 0 100 ${BAND_HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {links.map(({ from, to, fromPlace, toPlace, route, bytesPerSecond }) => (
          <line
            key={`${from} ${to}`}
            class={`link ${linkClass(bytesPerSecond)} ${route}`}
            x1={((fromPlace + 0.5) / above) * 100}
            x2={((toPlace + 0.5) / below) * 100}
            y1={0}
            y2={BAND_HEIGHT}
          />
        ))}
      </svg>
      {links.length > MOST_NAMED ? (
        <p class="soft small">{waysText(links)}</p>
      ) : (
        <ul class="soft small">
          {links.map(({ from, to, route, bytesPerSecond }) => (
            <li key={`${from} ${to}`}>
              <span class={`mark ${ROUTES[route].tone}`}>
                <span aria-hidden="true">{ROUTES[route].glyph}</span> {ROUTES[route].word}
              </span>{' '}
              {`${from} ↔ ${to}: ${byteRateText(bytesPerSecond)}`}
            </li>
          ))}
          {links.length === 0 && <li>no way measured yet</li>}
        </ul>
      )}
    </div>
  );
}

/** What the lines mean; the same words stand beside each. */
export function MapLegend() {
  return (
    <p class="legend note">
      {(['slow', 'fair', 'fast'] as const).map((kind) => (
        <span key={kind}>
          <svg viewBox="0 0 26 8" class="swatch" aria-hidden="true">
            <line class={`link ${kind} direct`} x1="0" x2="26" y1="4" y2="4" />
          </svg>
          {{ slow: 'below 1 MB/s', fair: '1 to 10 MB/s', fast: '10 MB/s and more' }[kind]}
        </span>
      ))}
      <span>
        <svg viewBox="0 0 26 8" class="swatch" aria-hidden="true">
          <line class="link fair relayed" x1="0" x2="26" y1="4" y2="4" />
        </svg>
        relayed through the server
      </span>
    </p>
  );
}
