/**
 * The charts of a run as data: which lines each has, in which unit, and what goes into its file. Pure; chart.tsx draws
 * whatever is here. Places on the x axis are committed steps: the loss of step 0 stands at 1.
 */
import { z } from 'zod';
import { arrayOf, at, rounded, totalOf } from '../../../swarm/base.ts';
import { byNumber } from '../../../swarm/islands/rounds.ts';
import { STEP_TENSORS } from '../../../swarm/messages/frame.ts';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import type { WatchedAnswers, WatchedStep } from '../../../swarm/messages/watch.ts';
import { countText, lossText, percentText, rateText, trafficText } from '../page/format.ts';
import { UNSEEN } from '../page/unseenLoss.ts';
import { islandLines, smoothedByIsland } from './islandCurves.ts';
import {
  groupsOf,
  joined,
  type Line,
  type LineTable,
  lineLook,
  meansOf,
  percentile,
  type StepWindow,
  smoothed,
  within,
} from './series.ts';

/** Points of a line: a pixel shows no more. */
const MOST_POINTS = 400;
/** The newest so many steps make the percentiles of a place. */
const PERCENTILE_STEPS = 50;

export interface Chart {
  readonly id: string;
  readonly title: string;
  /** In one sentence. */
  readonly note: string;
  readonly xs: readonly number[];
  readonly lines: readonly Line[];
  readonly format: (value: number) => string;
  readonly isLog: boolean;
  /** Whether 0 is always shown. */
  readonly fromZero: boolean;
  /** Its values are counts, so that only whole numbers stand beside its axis. */
  readonly isWhole: boolean;
  readonly csv: () => { readonly columns: readonly string[]; readonly rows: readonly (readonly (number | null)[])[] };
}

/** Another run's steps, to compare with. */
export interface ComparedRun {
  readonly run: string;
  readonly steps: readonly WatchedStep[];
  readonly evaluations: readonly (readonly [number, number])[];
}

type LossPer = NonNullable<Snapshot['lossPer']> | 'token';

export interface ChartInput {
  readonly steps: readonly WatchedStep[];
  readonly evaluations: readonly (readonly [number, number])[];
  /** Of the evaluations whose questions were answered. */
  readonly answers: readonly WatchedAnswers[];
  /** What a loss is a mean over. */
  readonly lossPer: LossPer;
  readonly window: StepWindow;
  /** Weight of what was before, 0 to below 1. */
  readonly smoothing: number;
  readonly isLog: boolean;
  readonly compared: readonly ComparedRun[];
  /** The islands that the run has now, by their numbers; null: it is one swarm. */
  readonly islands: readonly number[] | null;
}

interface Field {
  readonly name: string;
  readonly of: (step: WatchedStep) => number | null;
}

const secondsText = (seconds: number): string => `${rounded(seconds, 3)} s`;
const plainText = (value: number): string => rounded(value, 3).replace('e-', '·10^−');

/** A chart that is worked out when somebody looks at it. */
export interface Drawing {
  readonly id: string;
  readonly draw: () => Chart;
}

/** Steps that a window shows, and their means and percentiles at each point of a line. */
function drawnOf(steps: readonly WatchedStep[], window: StepWindow) {
  const shown = within(steps, window);
  const groups = groupsOf(shown.length, MOST_POINTS);
  const xs = groups.map(([, to]) => at(shown, to - 1).step + 1);
  const means = (of: Field['of']): (number | null)[] => meansOf(shown.map(of), groups);
  const trailing = (of: (step: WatchedStep) => number, share: number): number[] => {
    const values = Float64Array.from(shown, of);
    return groups.map(([, to]) => percentile(values.subarray(Math.max(0, to - PERCENTILE_STEPS), to), share));
  };
  return { shown, xs, means, trailing };
}

/** What a chart shows of each step, in the words that stand beside it. */
interface StepChart extends Pick<Chart, 'id' | 'title' | 'note' | 'format'> {
  /** Columns of its file. */
  readonly fields: readonly Field[];
  readonly lines: readonly StepLine[];
  /** What other runs are compared by; absent: nothing. */
  readonly compared?: Field['of'];
  /** It is of what is learned. */
  readonly isLearning?: true;
  readonly isWhole?: true;
}

interface StepLine extends Pick<Line, 'label' | 'tone' | 'pattern'> {
  readonly of: Field['of'];
  /** It is this percentile of the newest steps, in place of the mean of a few. */
  readonly share?: number;
}

const MAIN = lineLook('accent', 'solid');
const GOOD = lineLook('good', 'solid');
const EACH_STEP = { label: 'each step', tone: 'soft', pattern: 'thin' } as const;
const SECOND = lineLook('wait', 'dashed');

const known =
  (name: Exclude<keyof WatchedStep, 'traffic'>): Field['of'] =>
  (step) =>
    step[name] ?? null;
const fieldsOf = (...names: readonly Parameters<typeof known>[0][]): Field[] =>
  names.map((name) => ({ name, of: known(name) }));
const speedOf: Field['of'] = ({ tokens, seconds }) => (seconds > 0 ? tokens / seconds : null);
const [secondsOf, normOf] = [known('seconds'), known('gradientNorm')];
const sumOf =
  (...kinds: readonly (typeof STEP_TENSORS)[number][]): Field['of'] =>
  ({ traffic }) =>
    traffic ? totalOf(kinds, (kind) => traffic[kind]) : null;

const STEP_CHARTS: readonly StepChart[] = [
  {
    ...{ id: 'speed', title: 'Speed', note: 'Tokens a second.', format: rateText },
    fields: [{ name: 'tokensPerSecond', of: speedOf }],
    lines: [
      { ...EACH_STEP, of: speedOf },
      { ...MAIN, label: `median of ${PERCENTILE_STEPS} steps`, of: speedOf, share: 0.5 },
    ],
    compared: speedOf,
  },
  {
    ...{ id: 'time', title: 'Step time', note: 'Seconds from a step’s start to its commit.', format: secondsText },
    fields: fieldsOf('seconds'),
    lines: [
      { ...EACH_STEP, of: secondsOf },
      { ...MAIN, label: 'median (p50)', of: secondsOf, share: 0.5 },
      { ...SECOND, label: 'slowest 5 % (p95)', of: secondsOf, share: 0.95 },
    ],
    compared: secondsOf,
  },
  {
    ...{ id: 'norm', title: 'Gradient norm', note: 'Before clipping.', format: plainText },
    fields: fieldsOf('gradientNorm'),
    lines: [{ ...MAIN, label: 'norm', of: normOf }],
    compared: normOf,
    isLearning: true,
  },
  {
    ...{ id: 'rate', title: 'Learning rate', note: 'How large each update is, as the run sets it.', format: plainText },
    fields: fieldsOf('learningRate'),
    lines: [{ ...MAIN, label: 'rate', of: known('learningRate') }],
    isLearning: true,
  },
  {
    ...{ id: 'donors', title: 'Donors', note: 'How many donors computed each step, in how many stages.' },
    ...{ format: countText, isWhole: true },
    fields: fieldsOf('donors', 'stages', 'microBatches'),
    lines: [
      { ...MAIN, label: 'donors', of: known('donors') },
      { ...GOOD, pattern: 'dashed', label: 'stages', of: known('stages') },
    ],
  },
];

const BUBBLE_CHART: StepChart = {
  ...{ id: 'idle', title: 'Idle share (bubble)', format: percentText },
  note: 'How much of the donors’ time went unused between a step’s first and last work. The newest steps only.',
  fields: fieldsOf('bubble'),
  lines: [{ ...MAIN, label: 'idle', of: known('bubble') }],
};

const trafficCharts = (hasIslands: boolean): readonly StepChart[] => [
  {
    ...{ id: 'traffic', title: 'Traffic', format: trafficText },
    note: `What donors sent each other in each step, directly or through the server.${hasIslands ? ' A meeting counts with its round’s last step.' : ''}`,
    fields: fieldsOf('bytesDirect', 'bytesRelayed'),
    lines: [
      { ...GOOD, label: 'direct', of: known('bytesDirect') },
      { ...SECOND, label: 'relayed', of: known('bytesRelayed') },
    ],
  },
  {
    ...{ id: 'kinds', title: 'Traffic by kind', format: trafficText },
    note: `The same by what it is. ${hasIslands ? 'The first two lines add' : 'Each line adds'} up two kinds; the CSV keeps them apart.`,
    fields: [
      ...STEP_TENSORS.map((kind) => ({ name: `${kind}Bytes`, of: sumOf(kind) })),
      ...(hasIslands ? [{ name: 'meetingBytes', of: meetingBytes }] : []),
    ],
    lines: [
      { ...MAIN, label: 'activations and their gradients', of: sumOf('activation', 'gradient') },
      { ...SECOND, label: 'weights’ gradients and new weights', of: sumOf('slice', 'values') },
      ...(hasIslands ? [{ ...GOOD, pattern: 'dotted' as const, label: 'meetings', of: meetingBytes }] : []),
    ],
  },
];

/**
 * With islands what is learned goes by the steps' numbers, in which all islands go on side by side, and what is done by
 * the order in which it was done.
 */
export function chartsOf(given: ChartInput): Drawing[] {
  const others = given.compared.map((run) => ({ ...run, steps: byNumber(run.steps) }));
  const learning = { ...given, steps: byNumber(given.steps), compared: others };
  const learned = drawnOf(learning.steps, given.window);
  const done = learning.steps === given.steps ? learned : drawnOf(given.steps, given.window);
  const charts = [...STEP_CHARTS, ...trafficCharts(given.islands !== null), BUBBLE_CHART];
  return [
    { id: 'loss', draw: () => lossChart(learning, learned) },
    ...(given.answers.length > 0 ? [{ id: 'answers', draw: () => answersChart(given) }] : []),
    ...charts.map(({ fields, lines, compared, isLearning = false, ...about }): Drawing => {
      const { xs, shown, means, trailing } = isLearning ? learned : done;
      const draw = (): Chart => {
        const drawn = lines.map(({ of, share, ...look }) => ({
          ...look,
          values: share === undefined ? means(of) : trailing((step) => of(step) ?? 0, share),
        }));
        const isPlain = { isLog: false, fromZero: true, isWhole: false };
        const own = { xs, lines: drawn, ...isPlain, csv: fileOf(shown, fields), ...about };
        return compared === undefined
          ? own
          : besideOthers(own, shown === learned.shown ? learning : given, () => compared);
      };
      return { id: about.id, draw };
    }),
  ];
}

/** What the step itself sent follows from its plan; all else that is counted with it was sent at its round's meeting. */
function meetingBytes({ traffic, bytesDirect, bytesRelayed }: WatchedStep): number | null {
  if (!traffic) return null;
  const own = totalOf(STEP_TENSORS, (kind) => traffic[kind]);
  return Math.max(0, bytesDirect + bytesRelayed - own);
}

const fileOf = (shown: readonly WatchedStep[], fields: readonly Field[]) => () => ({
  columns: ['step', ...fields.map(({ name }) => name)],
  rows: shown.map((step) => [step.number ?? step.step, ...fields.map(({ of }) => of(step))]),
});

const COMPARED = [lineLook('bad', 'dashed'), lineLook('wait', 'dotted'), lineLook('good', 'dashed')];
export const MOST_COMPARED = COMPARED.length;

function lossChart(input: ChartInput, { shown, xs, means }: ReturnType<typeof drawnOf>): Chart {
  const { steps, evaluations, lossPer, window, smoothing, isLog, islands } = input;
  const smooth = islands === null ? smoothedByStep(steps, smoothing) : smoothedByIsland(steps, smoothing);
  const inWindow = ([at]: readonly [number, number]): boolean =>
    window === null || (at >= window[0] && at <= window[1]);
  const heldOut = evaluations.filter(inWindow);
  const ofSteps: LineTable[] =
    islands === null
      ? [
          { label: 'each step', tone: 'soft', pattern: 'thin', xs, ys: means(({ loss }) => loss) },
          {
            label: 'smoothed',
            tone: 'accent',
            pattern: 'solid',
            xs,
            ys: means(({ step }) => smooth.get(step) ?? null),
          },
        ]
      : islandLines({ steps, islands, smoothing, window, mostPoints: MOST_POINTS });
  const tables: LineTable[] = [
    ...ofSteps,
    {
      ...{ label: UNSEEN, tone: 'good', pattern: 'points' },
      ...{ xs: heldOut.map(([at]) => at), ys: heldOut.map(([, loss]) => loss) },
    },
  ];
  const own: Chart = {
    ...{ id: 'loss', title: 'Loss', format: lossText, isLog, fromZero: false, isWhole: false },
    note: `${LOSS_NAMES[lossPer]}${islands === null ? '. Lower is better.' : ': each island on its own, smoothed, and the mean of them.'}`,
    ...over(tables),
    csv: () => {
      const later = new Map(evaluations);
      return {
        columns: ['step', 'loss', 'smoothedLoss', 'heldOutLoss', ...(islands === null ? [] : ['island'])],
        rows: shown.map(({ step, loss, island }) => [
          ...[step, loss, smooth.get(step) ?? null, later.get(step + 1) ?? null],
          ...(islands === null ? [] : [island ?? null]),
        ]),
      };
    },
  };
  return besideOthers(own, input, (run) => {
    const losses = smoothedByStep(run.steps, smoothing);
    return ({ step }) => losses.get(step) ?? null;
  });
}

const LOSS_NAMES: Readonly<Record<LossPer, string>> = {
  token: 'Mean cross-entropy in nats a token',
  pair: 'Mean loss of the preference pairs in nats a pair',
};

function answersChart({ answers, window }: ChartInput): Chart {
  const shown = answers.filter(({ committedSteps: at }) => window === null || (at >= window[0] && at <= window[1]));
  return {
    ...{ id: 'answers', title: 'Right answers', format: percentText, isLog: false, fromZero: true, isWhole: false },
    note: 'The share of this run’s questions to which the model’s likeliest answer is letter by letter the expected one.',
    xs: shown.map(({ committedSteps }) => committedSteps),
    lines: [{ label: 'right', tone: 'good', pattern: 'points', values: shown.map(({ share }) => share) }],
    csv: () => ({
      columns: ['steps', 'answersRight', 'answersFromStep', 'answersToStep'],
      rows: shown.map(({ committedSteps, share, fromStep, toStep }) => [committedSteps, share, fromStep, toStep]),
    }),
  };
}

/** Several lines over one list of places. */
function over(tables: readonly LineTable[]): Pick<Chart, 'xs' | 'lines'> {
  const { xs, columns } = joined(tables);
  const lines = tables.map(({ label, tone, pattern }, index) => ({
    ...{ label, tone, pattern },
    values: at(columns, index),
  }));
  return { xs, lines };
}

/** The chart with the same of other runs beside it, each over its own steps. */
function besideOthers(own: Chart, { compared, window }: ChartInput, of: (run: ComparedRun) => Field['of']): Chart {
  if (compared.length === 0) return own;
  const others = compared.slice(0, MOST_COMPARED).map((run, place): LineTable => {
    const steps = within(run.steps, window);
    const groups = groupsOf(steps.length, MOST_POINTS);
    return {
      label: run.run,
      ...(COMPARED[place] ?? lineLook('soft', 'dashed')),
      xs: groups.map(([, to]) => at(steps, to - 1).step + 1),
      ys: meansOf(steps.map(of(run)), groups),
    };
  });
  return { ...own, ...over([...own.lines.map((line) => ({ ...line, xs: own.xs, ys: line.values })), ...others]) };
}

function smoothedByStep(steps: readonly WatchedStep[], weight: number): Map<number, number> {
  const values = smoothed(
    steps.map(({ loss }) => loss),
    weight,
  );
  return new Map(steps.map(({ step }, index) => [step, at(values, index)]));
}

/** What a chart shows, in one sentence for who does not see it. */
export function summaryOf({ title, xs, lines, format }: Chart): string {
  const [first, last] = [xs[0], xs.at(-1)];
  if (first === undefined || last === undefined) return `${title}: no step is done yet.`;
  const said = lines.flatMap(({ label, values }) => {
    const known = values.filter((value) => value !== null);
    const [begin, end] = [known[0], known.at(-1)];
    return begin === undefined || end === undefined ? [] : `${label} from ${format(begin)} to ${format(end)}`;
  });
  return `${title}, steps ${first} to ${last}: ${said.join('; ') || 'nothing known'}.`;
}

/** Where an axis of counts is labelled: at whole numbers from `low` to `high`, `apart` from each other or a little more. */
export function wholeSplits(low: number, high: number, apart: number): number[] {
  const step = Math.max(1, Math.ceil(apart));
  const first = Math.ceil(low / step);
  return arrayOf(Math.max(0, Math.floor(high / step) - first + 1), (place) => (first + place) * step);
}

/** How the charts are looked at, as an address that can be handed on: `/operator#run?from=100&to=250&smooth=0.9&log=1`. Pure. */
export interface ChartView {
  readonly window: StepWindow;
  readonly smoothing: number;
  readonly isLog: boolean;
}

export const PLAIN_VIEW: ChartView = { window: null, smoothing: 0.6, isLog: false };
const number = (least: number, most: number) => z.coerce.number().min(least).max(most);
const step = number(0, 1e12).pipe(z.int());

export function viewText({ window, smoothing, isLog }: ChartView): string {
  const words = new URLSearchParams();
  if (window !== null)
    for (const [name, at] of [
      ['from', window[0]],
      ['to', window[1]],
    ] as const)
      words.set(name, `${at}`);
  if (smoothing !== PLAIN_VIEW.smoothing) words.set('smooth', `${smoothing}`);
  if (isLog) words.set('log', '1');
  const text = words.toString();
  return `#run${text === '' ? '' : `?${text}`}`;
}

/** What is no number of its range is as it was without it. */
export function viewOf(hash: string): ChartView {
  const words = new URLSearchParams(hash.split('?')[1] ?? '');
  const [from, to] = [step.safeParse(words.get('from') ?? undefined), step.safeParse(words.get('to') ?? undefined)];
  const smooth = number(0, 0.99).safeParse(words.get('smooth') ?? undefined);
  return {
    window: from.success && to.success && from.data < to.data ? [from.data, to.data] : null,
    smoothing: smooth.success ? smooth.data : PLAIN_VIEW.smoothing,
    isLog: words.get('log') === '1',
  };
}
