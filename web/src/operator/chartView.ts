/** How the charts are looked at, as an address that can be handed on: `/operator#run?from=100&to=250&smooth=0.9&log=1`. Pure. */
import { z } from 'zod';
import type { StepWindow } from './series.ts';

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
