/**
 * What the charts make of committed steps. Pure arithmetic on lists of numbers, each with its formula: whatever is
 * drawn can be computed again from the table beside it.
 */
import { arrayOf } from '../../../swarm/base.ts';
import type { WatchedStep } from '../../../swarm/messages/watch.ts';

/** Committed steps, half-open; null: all there are. */
export type StepWindow = readonly [from: number, to: number] | null;

/**
 * Exponential moving mean, free of the bias of its start: s(t) = w·s(t−1) + (1−w)·x(t), divided by 1 − w^t. Weight 0
 * is the values themselves.
 */
export function smoothed(values: readonly number[], weight: number): number[] {
  let sum = 0;
  let whole = 0;
  return values.map((value) => {
    sum = weight * sum + (1 - weight) * value;
    whole = weight * whole + (1 - weight);
    return whole === 0 ? value : sum / whole;
  });
}

/** Of all the values so many (a share of 1) are below it; between two of them along a line. NaN of none. */
export function percentile(values: ArrayLike<number>, share: number): number {
  const sorted = Float64Array.from(values).sort();
  const place = share * (sorted.length - 1);
  const [low, high] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]];
  if (low === undefined || high === undefined) return Number.NaN;
  return low + (high - low) * (place - Math.floor(place));
}

/** Of each range of places, over the values that are known. */
export function meansOf(
  values: readonly (number | null)[],
  ranges: readonly (readonly [from: number, to: number])[],
): (number | null)[] {
  return ranges.map(([from, to]) => {
    let [sum, count] = [0, 0];
    for (let place = from; place < to; place++) {
      const value = values[place];
      if (value === null || value === undefined) continue;
      sum += value;
      count += 1;
    }
    return count === 0 ? null : sum / count;
  });
}

/** Those after which so many steps stood committed that the window shows them. */
export function within(steps: readonly WatchedStep[], window: StepWindow): readonly WatchedStep[] {
  if (window === null) return steps;
  const [from, to] = window;
  return steps.filter(({ step }) => step + 1 >= from && step + 1 <= to);
}

/** At most `most` ranges of neighbours, as equal as can be; the last one ends with the list. */
export function groupsOf(length: number, most: number): (readonly [from: number, to: number])[] {
  const size = Math.max(1, Math.ceil(length / most));
  return arrayOf(Math.ceil(length / size), (index) => {
    const to = length - (Math.ceil(length / size) - 1 - index) * size;
    return [Math.max(0, to - size), to] as const;
  });
}

interface Table {
  readonly xs: readonly number[];
  readonly ys: readonly (number | null)[];
}

export type Tone = 'accent' | 'soft' | 'good' | 'wait' | 'bad';

export interface Line {
  readonly label: string;
  readonly tone: Tone;
  /** Never the colour alone: lines of one chart differ in their pattern too. */
  readonly pattern: 'solid' | 'dashed' | 'dotted' | 'points' | 'thin';
  readonly values: readonly (number | null)[];
}

/** How a line is drawn. */
export const lineLook = (tone: Tone, pattern: Line['pattern']): Pick<Line, 'tone' | 'pattern'> => ({ tone, pattern });

export type LineTable = Table & Omit<Line, 'values'>;

/** Several lines over one list of places, ascending: null where a line has no value. */
export function joined(tables: readonly Table[]): { xs: number[]; columns: (number | null)[][] } {
  const xs = [...new Set(tables.flatMap((table) => table.xs))].sort((a, b) => a - b);
  const columns = tables.map((table) => {
    const at = new Map(table.xs.map((x, index) => [x, table.ys[index] ?? null]));
    return xs.map((x) => at.get(x) ?? null);
  });
  return { xs, columns };
}

/** A narrower or wider part around its middle, or one moved along by a share of itself; never beyond what there is. */
export function changedWindow(
  window: StepWindow,
  [first, last]: readonly [number, number],
  change: 'closer' | 'wider' | 'back' | 'on',
): StepWindow {
  const [from, to] = window ?? [first, last];
  const width = to - from;
  const middle = (from + to) / 2;
  const moved = { closer: 0, wider: 0, back: -width / 2, on: width / 2 }[change];
  const half = Math.max(1, change === 'closer' ? width / 4 : change === 'wider' ? width : width / 2);
  const low = Math.max(first, Math.min(middle + moved - half, last - 2 * half));
  const high = Math.min(last, Math.max(low, first) + 2 * half);
  return low <= first && high >= last ? null : [Math.round(low), Math.round(high)];
}

/** As wide as before and so many steps further on, as far as there are any; all there are stay all there are. */
export function movedWindow(window: StepWindow, [first, last]: readonly [number, number], steps: number): StepWindow {
  if (window === null) return null;
  const [from, to] = window;
  const low = Math.max(first, Math.min(from + steps, last - (to - from)));
  return [low, low + to - from];
}

/** Lines of a file that spreadsheets read; a text with a comma, a quote or a line's end is quoted. */
export function csv(columns: readonly string[], rows: readonly (readonly (number | null)[])[]): string {
  const quoted = (text: string): string => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return [columns.map(quoted), ...rows.map((row) => row.map((value) => (value === null ? '' : String(value))))]
    .map((row) => `${row.join(',')}\n`)
    .join('');
}

/** What a logarithmic axis has a place for: the line passes over the others, and its scale is that of the rest. */
export const positive = (values: Line['values']): (number | null)[] =>
  values.map((value) => (value !== null && value > 0 ? value : null));
