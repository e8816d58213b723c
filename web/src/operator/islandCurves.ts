/** The loss of a run with islands: a curve for each, and their mean. Pure. */
import { at, pushToKey, total } from '../../../swarm/base.ts';
import type { WatchedStep } from '../../../swarm/messages/watch.ts';
import { groupsOf, type LineTable, lineLook, meansOf, type StepWindow, smoothed } from './series.ts';

/** Of more islands the lowest and the highest are drawn. */
const MOST_CURVES = 8;
const STYLES = [
  lineLook('good', 'dashed'),
  lineLook('wait', 'dotted'),
  lineLook('bad', 'dashed'),
  lineLook('soft', 'dotted'),
  lineLook('good', 'dotted'),
  lineLook('wait', 'dashed'),
  lineLook('bad', 'dotted'),
  lineLook('soft', 'dashed'),
];

interface IslandsInput {
  /** By their numbers, each of an island. */
  readonly steps: readonly WatchedStep[];
  /** The islands that the run has now, by their numbers. */
  readonly islands: readonly number[];
  readonly smoothing: number;
  readonly window: StepWindow;
  readonly mostPoints: number;
}

/** Each island's losses smoothed by themselves, at their steps: an island knows nothing of the others' until they meet. */
export function smoothedByIsland(steps: readonly WatchedStep[], weight: number): Map<number, number> {
  const found = new Map<number, number>();
  for (const island of new Set(steps.map((step) => step.island))) {
    const own = steps.filter((step) => step.island === island);
    const losses = smoothed(
      own.map(({ loss }) => loss),
      weight,
    );
    for (const [place, { step }] of own.entries()) found.set(step, at(losses, place));
  }
  return found;
}

export function islandLines({ steps, islands, smoothing, window, mostPoints }: IslandsInput): LineTable[] {
  const losses = smoothedByIsland(steps, smoothing);
  const count = Math.max(1, islands.length);
  /**
   * K numbers one after another: with a number of islands a step of each, at the same place in everyone's list. With as many
   * as groups whoever is free takes the next number, so that fast ones have more of them.
   */
  const rows = new Map<number, number[]>();
  for (const { step } of steps) {
    const row = Math.floor(step / count);
    pushToKey(rows, row, losses.get(step) ?? Number.NaN);
  }
  const whole = [...rows].filter(([, row]) => row.length === count);
  const line = (style: Omit<LineTable, 'xs' | 'ys'>, points: readonly (readonly [number, number])[]): LineTable => {
    const inWindow = points.filter(([x]) => window === null || (x >= window[0] && x <= window[1]));
    const groups = groupsOf(inWindow.length, mostPoints);
    const ys = meansOf(
      inWindow.map(([, y]) => y),
      groups,
    );
    return { ...style, xs: groups.map(([, to]) => at(inWindow, to - 1)[0]), ys };
  };
  const ofRows = (of: (row: readonly number[]) => number) =>
    whole.map(([row, values]) => [(row + 1) * count, of(values)] as const);
  const mean = line(
    { label: 'mean', tone: 'accent', pattern: 'solid' },
    ofRows((row) => total(row) / count),
  );
  if (count > MOST_CURVES)
    return [
      line(
        { label: `lowest of ${count} islands`, tone: 'good', pattern: 'dashed' },
        ofRows((row) => Math.min(...row)),
      ),
      line(
        { label: 'highest', tone: 'bad', pattern: 'dotted' },
        ofRows((row) => Math.max(...row)),
      ),
      mean,
    ];
  // Those that have ended too, where there is room for them.
  const known = [...new Set([...islands, ...steps.flatMap(({ island }) => island ?? [])])].toSorted((a, b) => a - b);
  const each = (known.length > MOST_CURVES ? islands : known).map((island, place) => {
    const own = steps.filter((step) => step.island === island);
    const points = own.map(({ step }) => [step + 1, losses.get(step) ?? Number.NaN] as const);
    return line({ label: `island ${island + 1}`, ...at(STYLES, place) }, points);
  });
  return [...each, mean];
}
