/** How the donors work together: the map, one step's timeline, why the plan is as it is, and the ways between them. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { type StepTimeline, stepTimelineSchema } from '../../../swarm/watch.ts';
import { query, read } from './api.ts';
import { Links } from './links.tsx';
import { MapLegend, SwarmMap } from './swarmMap.tsx';
import { bottleneckText, workOf } from './swarmShape.ts';
import { millisText, Timeline, timelineText } from './timeline.tsx';
import type { SectionProps } from './view.tsx';

/** The newest step's timeline is asked for at most so often. */
const FOLLOW_MS = 2_000;
const SCRUB_MS = 80;

/** `chosen` null: always the newest one that the server keeps. */
function useTimeline(chosen: number | null, newest: number | null): StepTimeline | null {
  const [timeline, show] = useState<StepTimeline | null>(null);
  const askedAt = useRef(Number.NEGATIVE_INFINITY);
  const wanted = chosen ?? newest;
  const latest = useRef(wanted);
  latest.current = wanted;
  useEffect(() => {
    if (wanted === null) return;
    const pause = chosen === null ? Math.max(0, askedAt.current + FOLLOW_MS - performance.now()) : SCRUB_MS;
    const timer = setTimeout(async () => {
      askedAt.current = performance.now();
      const answer = await read(query('/api/operator/timeline', { step: wanted }), stepTimelineSchema);
      if (answer.ok && (chosen === null || latest.current === wanted)) show(answer.value);
    }, pause);
    return () => clearTimeout(timer);
  }, [wanted, chosen]);
  return timeline;
}

export function SwarmSection({ state, snapshot }: SectionProps) {
  const { plan, traces } = state;
  const [chosen, choose] = useState<number | null>(null);
  const timeline = useTimeline(chosen, traces?.[1] ?? null);
  const links = snapshot.links ?? [];
  const isOfPlan = timeline !== null && timeline.epoch === plan?.epoch;
  const work = useMemo(() => (isOfPlan && plan ? workOf(timeline.measured, plan) : null), [timeline, plan]);
  const peers = useMemo(() => plan?.stages.flatMap(({ members }) => members.map(({ peer }) => peer)) ?? [], [plan]);
  // It changes with its step alone, not with every number of the run.
  const spans = useMemo(
    () => timeline && <Timeline timeline={timeline} peers={isOfPlan ? peers : []} />,
    [timeline, peers, isOfPlan],
  );
  return (
    <>
      <section class="card" aria-labelledby="map">
        <h2 id="map">Map</h2>
        <p class="sentence long">
          {plan ? bottleneckText(work ?? { seconds: 0, peers: [] }, plan, links) : 'There is no plan yet.'}
        </p>
        {plan && <MapLegend />}
        {plan && <SwarmMap plan={plan} links={links} work={work} />}
      </section>
      <section class="card" aria-labelledby="timeline">
        <h2 id="timeline">Timeline</h2>
        {traces === null ? (
          <p class="soft empty">No step is measured yet.</p>
        ) : (
          <Scrubber first={traces[0]} last={traces[1]} chosen={chosen} choose={choose} />
        )}
        <p class="sentence long">{timeline && timelineText(timeline)}</p>
        {spans}
        {timeline && !isOfPlan && <p class="soft small">This step was done under plan {timeline.epoch}.</p>}
      </section>
      {plan && <PlanWords state={state} snapshot={snapshot} plan={plan} />}
      <Links links={links} />
    </>
  );
}

interface ScrubberProps {
  readonly first: number;
  readonly last: number;
  readonly chosen: number | null;
  readonly choose: (step: number | null) => void;
}

function Scrubber({ first, last, chosen, choose }: ScrubberProps) {
  return (
    <div class="controls">
      <label>
        <span>Step</span>
        <input
          type="range"
          min={first}
          max={last}
          value={chosen ?? last}
          onInput={(event) => choose(Number(event.currentTarget.value))}
        />
        <output>{(chosen ?? last) + 1}</output>
      </label>
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

type PlanProps = Pick<SectionProps, 'snapshot' | 'state'> & {
  readonly plan: NonNullable<SectionProps['state']['plan']>;
};

/** Why the plan in force is as it is. */
function PlanWords({ snapshot: { planning }, plan }: PlanProps) {
  const { epoch, reason, schedule, stages, microBatches } = plan;
  const size = `${stages.length} ${stages.length === 1 ? 'stage' : 'stages'}, ${microBatches.length} ${microBatches.length === 1 ? 'micro-batch' : 'micro-batches'}, ${schedule}`;
  const predicted = planning?.predictedSeconds ?? null;
  const measured = planning?.measuredSeconds ?? null;
  return (
    <section class="card" aria-labelledby="plan">
      <h2 id="plan">Plan {epoch}</h2>
      <p>{size}.</p>
      <p class="soft words">Made because {reason}.</p>
      {predicted !== null && (
        <p>
          Predicted {millisText(predicted)} a step{measured !== null && `, measured ${millisText(measured)}`}.
        </p>
      )}
      {planning && planning.reasons.length > 0 && (
        <ul class="reasons small">
          {planning.reasons.map((words) => (
            <li key={words}>{words}</li>
          ))}
        </ul>
      )}
      {planning?.verdict && <p class="soft small words">Newest look for a better one: {planning.verdict}.</p>}
    </section>
  );
}
