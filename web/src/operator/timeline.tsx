/** One step, peer by peer: what was measured, and beneath it what was predicted; one micro-batch can be followed. */
import { useMemo, useState } from 'preact/hooks';
import type { StepTimeline as SentStep } from '../../../swarm/messages/watch.ts';
import { durationText } from '../../../swarm/quantityText.ts';
import { type ComputeAction, formatAction } from '../../../swarm/schedule/action.ts';
import type { BesideSpan } from '../../../swarm/timeline/beside.ts';
import {
  type ComputeSpan,
  lengthSeconds,
  makespanSeconds,
  spansByPeer,
  type Timeline,
} from '../../../swarm/timeline/timeline.ts';
import { Choice } from '../page/fields.tsx';
import { NOTHING, percentText } from '../page/format.ts';
import { SmallButton } from '../page/parts.tsx';
import { type Column, heads, numbers, Stacks } from '../page/stacks.tsx';
import { Bars, BesideTable } from './besideBars.tsx';

/** Rows that are drawn unasked. */
const MOST_ROWS = 24;

export interface ShownStep extends Omit<SentStep, 'measured' | 'predicted'> {
  readonly measured: readonly ComputeSpan[];
  /** With islands: what each donor's turn ended with, behind the step. */
  readonly turnEnds: Timeline;
  readonly predicted: readonly ComputeSpan[];
  /** What donors do beside their micro-batches. */
  readonly beside: { readonly measured: readonly BesideSpan[]; readonly predicted: readonly BesideSpan[] };
}

type BesideOf = ReadonlyMap<string, readonly BesideSpan[]>;

interface TimelineProps {
  readonly step: ShownStep;
  /** In the order of the stages. */
  readonly peers: readonly string[];
}

export function millisText(seconds: number): string {
  if (seconds < 1) return `${(seconds * 1000).toFixed(seconds < 0.1 ? 1 : 0)} ms`;
  return seconds < 90 ? `${seconds.toFixed(seconds < 10 ? 2 : 1)} s` : durationText(seconds);
}

/** Measured beside predicted, in one sentence; people count steps from 1. */
export function timelineText({ step, measured, predicted, bubble, turnEnds }: ShownStep): string {
  const words = stepText({ step, measured, predicted, bubble });
  const [first] = turnEnds;
  if (first === undefined) return words;
  const longest = millisText(Math.max(...turnEnds.map(lengthSeconds)));
  return first.action.op === 'MEET'
    ? `${words} Then the islands met: ${longest} at the donor that took longest.`
    : `${words} Then came the next island’s turn: its state was there after ${longest}.`;
}

function stepText({
  step,
  measured,
  predicted,
  bubble,
}: Omit<ShownStep, 'turnEnds' | 'beside' | 'epoch' | 'plan'>): string {
  const [took, should] = [makespanSeconds(measured), makespanSeconds(predicted)];
  const idle = `Of the donors’ time ${percentText(bubble)} was idle.`;
  if (predicted.length === 0)
    return `Step ${step + 1} took ${millisText(took)} from its first to its last work. ${idle}`;
  const off = took / should - 1;
  const compared = `${percentText(Math.abs(off))} ${off >= 0 ? 'more' : 'less'} than the ${millisText(should)} predicted`;
  return `Step ${step + 1} took ${millisText(took)} from its first to its last work, ${compared}. ${idle}`;
}

export function StepTimeline({ step: { measured, predicted, turnEnds, beside }, peers }: TimelineProps) {
  const [followed, follow] = useState<string>('');
  const [isWhole, whole] = useState(false);
  const batches = useMemo((): readonly (readonly [string, string])[] => {
    const ids = [...new Set(measured.map(({ action }) => action.microBatch))].sort((a, b) => a - b);
    return [['', 'all'], ...ids.map((id) => [`${id}`, `${id + 1}`] as const)];
  }, [measured]);
  const measuredBy = useMemo<ReadonlyMap<string, Timeline>>(
    () => spansByPeer([...measured, ...turnEnds]),
    [measured, turnEnds],
  );
  const predictedBy = useMemo<ReadonlyMap<string, readonly ComputeSpan[]>>(() => spansByPeer(predicted), [predicted]);
  const besideBy = useMemo<BesideOf>(() => spansByPeer(beside.measured), [beside]);
  const besidePredicted = useMemo<BesideOf>(() => spansByPeer(beside.predicted), [beside]);
  const rows = [...new Set([...peers, ...measuredBy.keys()])];
  const shown = isWhole ? rows : rows.slice(0, MOST_ROWS);
  const all = [...measured, ...predicted, ...turnEnds, ...beside.measured, ...beside.predicted];
  const seconds = all.reduce((latest, { endSeconds }) => Math.max(latest, endSeconds), 1e-6);
  return (
    <figure class="spans">
      <div class="controls">
        <Choice
          label="Follow a part of the samples"
          value={followed}
          options={batches}
          choose={follow}
          select={{ class: 'small' }}
        />
        <Legend end={turnEnds[0]} />
      </div>
      <div aria-hidden="true">
        {shown.map((peer) => (
          <div class="span-row" key={peer}>
            <span class="soft small">{peer}</span>
            <div>
              <Bars spans={measuredBy.get(peer) ?? []} seconds={seconds} followed={followed} kind="measured" />
              {beside.measured.length > 0 && (
                <Bars spans={besideBy.get(peer) ?? []} seconds={seconds} followed={followed} kind="beside" />
              )}
              {predicted.length > 0 && (
                <>
                  <Bars spans={predictedBy.get(peer) ?? []} seconds={seconds} followed={followed} kind="predicted" />
                  <Bars spans={besidePredicted.get(peer) ?? []} seconds={seconds} followed={followed} kind="beside" />
                </>
              )}
            </div>
          </div>
        ))}
        <Scale seconds={seconds} />
      </div>
      {rows.length > MOST_ROWS && (
        <SmallButton onClick={() => whole(!isWhole)}>
          {isWhole ? 'Fewer donors' : `All ${rows.length} donors`}
        </SmallButton>
      )}
      <BesideTable measured={beside.measured} predicted={beside.predicted} text={millisText} />
      {followed !== '' && <Path spans={measured} followed={followed} />}
    </figure>
  );
}

const PATCHES = [
  ['forward', 'forward'],
  ['backward', 'backward'],
  ['again', 'recomputed'],
] as const;

/** `end`: with islands, what a donor's turn ended with. */
function Legend({ end }: { readonly end: Timeline[number] | undefined }) {
  const ends = end?.action.op === 'MEET' ? 'the islands’ meeting' : 'switch to the next island';
  return (
    <span class="legend note">
      {[...PATCHES, ...(end ? [['meeting', ends] as const] : [])].map(([look, word]) => (
        <span key={look}>
          <span class={`patch ${look}`} aria-hidden="true" /> {word}
        </span>
      ))}
      <span>thin: predicted</span>
    </span>
  );
}

const Scale = ({ seconds }: { readonly seconds: number }) => (
  <div class="span-row">
    <span />
    <span class="trace-scale soft small">
      <span>0</span>
      <span>{millisText(seconds)}</span>
    </span>
  </div>
);

const WORDS: Readonly<Record<string, string>> = { F: 'forward', B: 'backward', R: 'recomputed' };

/** `1F0`: stage 2, forward. */
const actionText = ({ op, stage }: ComputeAction): string => `stage ${stage + 1}, ${WORDS[op] ?? op}`;

type PathSpan = ComputeSpan & { readonly pauseSeconds: number | null };

const PATH: readonly Column<PathSpan>[] = [
  heads('Work', ({ action }) => (
    <>
      {formatAction(action)} <span class="note">{actionText(action)}</span>
    </>
  )),
  { name: 'Donor', of: ({ peer }) => peer },
  numbers('From', ({ startSeconds }) => millisText(startSeconds)),
  numbers('To', ({ endSeconds }) => millisText(endSeconds)),
  numbers('Pause before', ({ pauseSeconds }) => (pauseSeconds === null ? NOTHING : millisText(pauseSeconds))),
];

/** The way of one micro-batch through the peers, in words. */
function Path({ spans, followed }: { spans: readonly ComputeSpan[]; followed: string }) {
  const own = spans.filter(({ action }) => String(action.microBatch) === followed);
  const rows = own.map((span, place): PathSpan => {
    const before = own[place - 1];
    return { ...span, pauseSeconds: before ? Math.max(0, span.startSeconds - before.endSeconds) : null };
  });
  return (
    <Stacks
      label="Its way through the donors"
      columns={PATH}
      rows={rows}
      caption={`Part ${Number(followed) + 1} of the step’s samples`}
    />
  );
}
