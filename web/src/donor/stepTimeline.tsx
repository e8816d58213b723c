/** This tab's newest whole step, drawn from its own spans: what it computed and what it waited for, each in a lane of its own. */
import { useMemo } from 'preact/hooks';
import { type Interval, lengthSeconds } from '../../../swarm/timeline/timeline.ts';
import type { StepTrace } from '../executor/protocol.ts';
import type { DonorState } from './state.ts';
import { secondsText, traceText } from './work.ts';

/** Units of the drawing across; its height is one lane’s. */
const WIDTH = 1_000;
const LEAST_WIDTH = 1.5;

interface Lane {
  readonly name: string;
  readonly kind: 'forward' | 'backward' | 'waiting' | 'meeting';
  readonly bars: readonly Interval[];
}

function lanes({ spans, waits }: StepTrace): readonly Lane[] {
  const of = (op: string) => spans.filter(({ action }) => action.op === op);
  const meetings = of('MEET');
  const ends = [...meetings, ...of('SWITCH')];
  return [
    { name: 'Forward', kind: 'forward', bars: of('F') },
    { name: 'Backward', kind: 'backward', bars: [...of('R'), ...of('B')] },
    { name: 'Waiting', kind: 'waiting', bars: waits },
    // With islands, where a turn ends with the step.
    ...(ends.length === 0
      ? []
      : [{ name: meetings.length > 0 ? 'Meeting' : 'Switch', kind: 'meeting', bars: ends } as const]),
  ];
}

export function StepTimeline({ state, trace }: { state: DonorState; trace: StepTrace }) {
  const words = traceText(state, trace);
  // The trace is the same object until the next step's: nothing is drawn between two steps.
  const drawing = useMemo(() => <Drawing trace={trace} />, [trace]);
  return (
    <figure class="trace">
      {drawing}
      <figcaption class="trace-words">{words}</figcaption>
    </figure>
  );
}

function Drawing({ trace }: { trace: StepTrace }) {
  const scale = WIDTH / Math.max(trace.seconds, 0.001);
  return (
    <div aria-hidden="true">
      {lanes(trace).map(({ name, kind, bars }) => (
        <div class="trace-row" key={kind}>
          <span class="soft small">{name}</span>
          <svg viewBox={`0 0 ${WIDTH} 1`} preserveAspectRatio="none" class={kind} aria-hidden="true">
            {bars.map((bar) => (
              <rect
                key={bar.startSeconds}
                x={bar.startSeconds * scale}
                y={0}
                height={1}
                width={Math.max(lengthSeconds(bar) * scale, LEAST_WIDTH)}
              />
            ))}
          </svg>
        </div>
      ))}
      <div class="trace-row">
        <span />
        <span class="trace-scale soft small">
          <span>0</span>
          <span>{secondsText(trace.seconds)}</span>
        </span>
      </div>
    </div>
  );
}
