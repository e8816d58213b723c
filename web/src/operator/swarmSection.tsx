/** How the donors work together: the map, one step's timeline, why the plan is as it is, and the ways between them. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import { type PlanInForce, stepTimelineSchema, type WatchedEvent } from '../../../swarm/messages/watch.ts';
import { counted } from '../../../swarm/quantityText.ts';
import { besideOfRows, timelineOfRows, turnEndsOfRows } from '../../../swarm/timeline/rows.ts';
import { useOf } from '../../../swarm/timeline/waits.ts';
import { query, read } from './api.ts';
import { eventText, peerOf } from './eventText.ts';
import { IslandMap } from './islandMap.tsx';
import { Links } from './links.tsx';
import { EVENT_SIGNS } from './marks.ts';
import type { SectionProps } from './props.ts';
import { allPlans } from './state.ts';
import { MapLegend, SwarmMap } from './swarmMap.tsx';
import { bottleneckText } from './swarmShape.ts';
import { millisText, type ShownStep, StepTimeline, timelineText } from './timeline.tsx';

/** The newest step's timeline is asked for at most so often. */
const FOLLOW_MS = 2_000;
const SCRUB_MS = 80;
const MOST_EVENTS = 6;
const NO_LINKS: readonly never[] = [];

/** Whether nobody can see this tab. */
function useHidden(): boolean {
  const [isHidden, set] = useState(document.hidden);
  useEffect(() => {
    const look = (): void => set(document.hidden);
    document.addEventListener('visibilitychange', look);
    return () => document.removeEventListener('visibilitychange', look);
  }, []);
  return isHidden;
}

/** `chosen` null: always the newest one that the server keeps. */
function useTimeline(chosen: number | null, newest: number | null): ShownStep | null {
  const [timeline, show] = useState<ShownStep | null>(null);
  const askedAt = useRef(-Infinity);
  const wanted = chosen ?? newest;
  const latest = useRef(wanted);
  latest.current = wanted;
  const isHidden = useHidden();
  useEffect(() => {
    if (wanted === null || isHidden) return;
    const pause = chosen === null ? Math.max(0, askedAt.current + FOLLOW_MS - performance.now()) : SCRUB_MS;
    const timer = setTimeout(async () => {
      askedAt.current = performance.now();
      const answer = await read(query('/api/operator/timeline', { step: wanted }), stepTimelineSchema);
      if (!answer.ok || (chosen !== null && latest.current !== wanted)) return;
      const { measured, predicted, ...step } = answer.value;
      const spans = { measured: timelineOfRows(measured), turnEnds: turnEndsOfRows(measured) };
      const beside = { measured: besideOfRows(measured), predicted: besideOfRows(predicted) };
      show({ ...step, ...spans, predicted: timelineOfRows(predicted), beside });
    }, pause);
    return () => clearTimeout(timer);
  }, [wanted, chosen, isHidden]);
  return timeline;
}

export function SwarmSection({ state, snapshot }: SectionProps) {
  const { traces } = state;
  const [chosen, choose] = useState<number | null>(null);
  const timeline = useTimeline(chosen, traces?.[1] ?? null);
  const links = snapshot.links ?? NO_LINKS;
  // A step that was chosen is shown with the plan that it was done under.
  const plan = chosen === null ? state.plan : (timeline?.plan ?? state.plan);
  // Of several groups that have islands of their own any may have done the newest step.
  const all = allPlans({ ...state, plan });
  const isOneOfSeveral = (snapshot.groups?.length ?? 0) > 1;
  const stepPlan = all.find(({ epoch }) => epoch === timeline?.epoch) ?? null;
  const use = useMemo(() => (timeline && stepPlan ? useOf(timeline.measured, stepPlan) : null), [timeline, stepPlan]);
  const peers = useMemo(
    () => stepPlan?.stages.flatMap(({ members }) => members.map(({ peer }) => peer)) ?? [],
    [stepPlan],
  );
  // It changes with its step alone, not with every number of the run.
  const spans = useMemo(() => timeline && <StepTimeline step={timeline} peers={peers} />, [timeline, peers]);
  return (
    <>
      <section class="card" aria-labelledby="map">
        <h2 id="map">Map{chosen !== null && plan !== null && ` of plan ${plan.epoch}`}</h2>
        <p class={plan ? 'sentence long' : 'soft empty'}>
          {plan
            ? `${use && timeline && isOneOfSeveral ? `Step ${timeline.step + 1}: ` : ''}${bottleneckText(use ?? { seconds: 0, peers: [] }, stepPlan ?? plan, snapshot.limit)}`
            : snapshot.phase === 'finished'
              ? 'The run is finished, and nobody trains it any more.'
              : 'There is no plan yet.'}
        </p>
        {plan && <MapLegend />}
        {chosen === null && snapshot.groups ? (
          <IslandMap groups={snapshot.groups} plans={all} links={links} use={use} />
        ) : (
          plan && <SwarmMap plan={plan} links={links} use={use} />
        )}
      </section>
      <section class="card" aria-labelledby="timeline">
        <h2 id="timeline">Timeline</h2>
        {traces === null ? (
          <p class="soft empty">No step has been measured yet.</p>
        ) : (
          <Scrubber
            first={traces[0]}
            last={traces[1]}
            chosen={chosen}
            shown={chosen ?? timeline?.step ?? traces[1]}
            choose={choose}
          />
        )}
        {traces !== null && <p class="sentence long">{timeline && timelineText(timeline)}</p>}
        {spans}
        {timeline && stepPlan === null && <p class="soft small">This step was done under plan {timeline.epoch}.</p>}
        {timeline && <StepEvents step={timeline.step} events={state.events} />}
      </section>
      {plan && <PlanWords snapshot={snapshot} plan={plan} />}
      <Links links={links} served={state.served} />
    </>
  );
}

type Reason = NonNullable<Snapshot['planning']>['reasons'][number];

const ownReasonText = ({ peer, text }: Reason): string => (peer === null ? text : `${peer}: ${text}`);

const momentText = (event: WatchedEvent): string => {
  const peer = peerOf(event);
  return [peer && peer, eventText(event)].filter(Boolean).join(': ');
};

/** Of the step itself, and of the boundary behind it. */
function StepEvents({ step, events }: { step: number; events: readonly WatchedEvent[] }) {
  const own = events.filter((event) => event.step === step || event.step === step + 1).slice(-MOST_EVENTS);
  return (
    <ul class="rows events-of-step small" aria-label="What happened around this step">
      {own.map((event) => (
        <li key={event.id}>
          <span class={`mark ${EVENT_SIGNS[event.kind].tone}`}>
            <span aria-hidden="true">{EVENT_SIGNS[event.kind].glyph}</span> {EVENT_SIGNS[event.kind].word}
          </span>{' '}
          {momentText(event)}
        </li>
      ))}
      {own.length === 0 && <li class="soft">Nobody came or left around this step.</li>}
    </ul>
  );
}

/** By the steps' own numbers; what is shown counts from 1. */
interface ScrubberProps {
  readonly first: number;
  readonly last: number;
  readonly chosen: number | null;
  /** Chosen, or the newest one whose timeline is here. */
  readonly shown: number;
  readonly choose: (step: number | null) => void;
}

function Scrubber({ first, last, chosen, shown, choose }: ScrubberProps) {
  return (
    <div class="controls">
      <span class="inline">
        <label for="step">Step</label>
        <input
          id="step"
          type="range"
          min={first + 1}
          max={last + 1}
          value={shown + 1}
          onInput={(event) => choose(Number(event.currentTarget.value) - 1)}
        />
        <output for="step">{shown + 1}</output>
      </span>
      <label class="check">
        <input
          type="checkbox"
          checked={chosen === null}
          onChange={(event) => choose(event.currentTarget.checked ? null : last)}
        />
        <span>Follow the newest step</span>
      </label>
    </div>
  );
}

type PlanProps = Pick<SectionProps, 'snapshot'> & { readonly plan: PlanInForce };

/** Why the plan in force is as it is. */
function PlanWords({ snapshot: { planning }, plan }: PlanProps) {
  const { epoch, reason, schedule, stages, microBatches } = plan;
  const size = `${counted(stages.length, 'stage')}, ${counted(microBatches.length, 'micro-batch')}, ${schedule}`;
  const isInForce = planning?.epoch === epoch;
  const predicted = (isInForce && planning.predictedSeconds) || null;
  const measured = (isInForce && planning.measuredSeconds) || null;
  return (
    <section class="card" aria-labelledby="plan">
      <h2 id="plan">Plan {epoch}</h2>
      <p class="soft words">Why it was made: {reason}.</p>
      {predicted !== null && (
        <p>
          A step was predicted to take {millisText(predicted)}
          {measured !== null && `; its newest steps take ${millisText(measured)}`}.
        </p>
      )}
      <details>
        <summary>Details</summary>
        <ul class="reasons small">
          <li>{size}.</li>
          {isInForce && planning.reasons.map(ownReasonText).map((words) => <li key={words}>{words}</li>)}
          {isInForce && planning.verdict && <li>Last search for a better one: {planning.verdict}.</li>}
          {predicted !== null && (
            <li>
              These times run from a step’s start until it counts; the measured one is the median of the newest steps.
              The timeline predicts less, because it counts the donors’ work alone. “Check plan” and “What if” make a
              new plan, so they may predict something else again.
            </li>
          )}
        </ul>
      </details>
    </section>
  );
}
