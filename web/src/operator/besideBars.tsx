/** What donors do beside their micro-batches: sends, gathers, updates. A strip for each donor, and a table in words. */
import { addToKey } from '../../../swarm/base.ts';
import type { BesideOp, BesideSpan } from '../../../swarm/timeline/beside.ts';
import { lengthSeconds, type Timeline } from '../../../swarm/timeline/timeline.ts';
import { NOTHING } from '../page/format.ts';
import { type Column, heads, numbers, Stacks } from '../page/stacks.tsx';

interface Kind {
  readonly name: string;
  readonly patch: 'sending' | 'gathering' | 'reducing' | 'updating' | 'hosting' | 'values' | 'answering';
  readonly ops: readonly BesideOp[];
}

const KINDS: readonly Kind[] = [
  { name: 'sends to the next donor', patch: 'sending', ops: ['SEND_F', 'SEND_B'] },
  { name: 'layers gathered', patch: 'gathering', ops: ['GATHER_F', 'GATHER_B'] },
  { name: 'gradient sums sent', patch: 'reducing', ops: ['REDUCE'] },
  { name: 'update on the GPU', patch: 'updating', ops: ['UPDATE'] },
  { name: 'update in main memory', patch: 'hosting', ops: ['UPDATE_HOST'] },
  { name: 'new values out and in', patch: 'values', ops: ['SEND_V', 'GATHER'] },
  { name: 'answers', patch: 'answering', ops: ['ANSWER'] },
];

/** Of micro-batches, and of what a donor's turn ends with. */
const COMPUTE_CLASSES: Readonly<Record<string, string>> = {
  ...{ F: 'forward', B: 'backward', R: 'again' },
  ...{ MEET: 'meeting', SWITCH: 'meeting' },
};

const classOf = (op: string): string =>
  COMPUTE_CLASSES[op] ?? KINDS.find(({ ops }) => ops.some((each) => each === op))?.patch ?? '';

const WIDTH = 1_000;
const LEAST_WIDTH = 1.5;

interface BarsProps {
  readonly spans: Timeline | readonly BesideSpan[];
  /** All of the drawing's width. */
  readonly seconds: number;
  /** The micro-batch whose spans are not faint, by its number; empty: all. */
  readonly followed: string;
  readonly kind: 'measured' | 'predicted' | 'beside';
}

export function Bars({ spans, seconds, followed, kind }: BarsProps) {
  const scale = WIDTH / seconds;
  return (
    <svg viewBox={`0 0 ${WIDTH} 1`} preserveAspectRatio="none" class={kind} aria-hidden="true">
      {spans.map((span, place) => {
        const { action, startSeconds } = span;
        const isFaint = followed !== '' && (!('microBatch' in action) || String(action.microBatch) !== followed);
        return (
          <rect
            key={place}
            class={`${classOf(action.op)}${isFaint ? ' faint' : ''}`}
            x={startSeconds * scale}
            y={0}
            height={1}
            width={Math.max(lengthSeconds(span) * scale, LEAST_WIDTH)}
          />
        );
      })}
    </svg>
  );
}

/** The sum at the donor that spends most on it; null: nobody does. */
function mostSeconds(spans: readonly BesideSpan[], { ops }: Kind): number | null {
  const sums = new Map<string, number>();
  for (const span of spans) if (ops.includes(span.action.op)) addToKey(sums, span.peer, lengthSeconds(span));
  return sums.size === 0 ? null : Math.max(...sums.values());
}

interface BesideTableProps {
  readonly measured: readonly BesideSpan[];
  readonly predicted: readonly BesideSpan[];
  readonly text: (seconds: number) => string;
}

/** Of each kind, at the donor that takes longest with it. */
export function BesideTable({ measured, predicted, text }: BesideTableProps) {
  const rows = KINDS.map((kind) => ({ kind, took: mostSeconds(measured, kind), should: mostSeconds(predicted, kind) }));
  const shown = rows.filter(({ took, should }) => took !== null || should !== null);
  if (shown.length === 0) return null;
  const known = (seconds: number | null): string => (seconds === null ? NOTHING : text(seconds));
  const columns: readonly Column<(typeof rows)[number]>[] = [
    heads('Other work of a step', ({ kind: { name, patch } }) => (
      <>
        <span class={`patch ${patch}`} aria-hidden="true" /> {name}
      </>
    )),
    numbers('Measured', ({ took }) => known(took)),
    numbers('Predicted', ({ should }) => known(should)),
  ];
  return (
    <Stacks
      label="Other work of a step"
      columns={columns}
      rows={shown}
      caption="All of a step’s together, at the donor that takes longest"
    />
  );
}
