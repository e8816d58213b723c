import { describe, expect, test } from 'vitest';
import { arrayOf } from '../../../swarm/base.ts';
import type { EventKind, WatchedStep } from '../../../swarm/messages/watch.ts';
import { type ChartInput, chartsOf, PLAIN_VIEW, summaryOf, viewOf, viewText, wholeSplits } from './charts.ts';
import { marksOf } from './marks.ts';
import { sectionOf } from './sections.ts';
import { csv } from './series.ts';

const stepAt = (step: number, part: Partial<WatchedStep> = {}): WatchedStep => ({
  ...{ step, loss: 1, gradientNorm: 1, learningRate: 0.001, tokens: 100, seconds: 1, donors: 2, stages: 2 },
  ...{ microBatches: 4, plan: 1, bytesDirect: 1_000, bytesRelayed: 0 },
  ...part,
});
const steps = (count: number, part: (step: number) => Partial<WatchedStep> = () => ({})) =>
  arrayOf(count, (step) => stepAt(step, part(step)));
const input = (part: Partial<ChartInput>): ChartInput => ({
  ...{
    steps: [],
    evaluations: [],
    answers: [],
    lossPer: 'token',
    window: null,
    smoothing: 0,
    isLog: false,
    compared: [],
    islands: null,
  },
  ...part,
});
const chart = (id: string, part: Partial<ChartInput>) => {
  const found = chartsOf(input(part)).find((each) => each.id === id);
  if (!found) throw new Error(`there is no chart ${id}`);
  return found.draw();
};
const line = (id: string, label: string, part: Partial<ChartInput>) =>
  chart(id, part).lines.find((each) => each.label === label)?.values ?? [];

describe('charts', () => {
  test('p50 and p95 of the newest fifty steps: of 1 to 50 seconds, 25.5 and 47.55', () => {
    const given = { steps: steps(50, (step) => ({ seconds: step + 1 })) };
    expect(line('time', 'median (p50)', given).at(-1)).toBeCloseTo(25.5, 9);
    expect(line('time', 'slowest 5 % (p95)', given).at(-1)).toBeCloseTo(1 + 0.95 * 49, 9);
    expect(
      line('time', 'median (p50)', { steps: steps(200, (step) => ({ seconds: step < 150 ? 9 : 1 })) }).at(-1),
    ).toBe(1);
  });

  test('a long run is drawn with few points, their means, to its newest step', () => {
    const given = { steps: steps(10_000, (step) => ({ loss: step % 2 })) };
    const { xs } = chart('loss', given);
    expect(xs.length).toBeLessThanOrEqual(600);
    expect(xs.at(-1)).toBe(10_000);
    for (const value of line('loss', 'each step', given).slice(1)) expect(value).toBeCloseTo(0.5, 1);
  });

  test('a run with islands has a curve for each, smoothed by itself, and their mean where all are as far', () => {
    // Two islands of two steps a round; the second has one step still to do.
    const done = [0, 2, 1, 3, 4, 6, 5].map((number, step) =>
      stepAt(step, { number, island: number % 2, loss: number % 2 === 0 ? 4 : 2 }),
    );
    const given = { steps: done, islands: [0, 1], smoothing: 0.5 };
    expect(chart('loss', given).xs).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(line('loss', 'island 1', given)).toEqual([4, null, 4, null, 4, null, 4]);
    expect(line('loss', 'island 2', given)).toEqual([null, 2, null, 2, null, 2, null]);
    expect(line('loss', 'mean', given)).toEqual([null, 3, null, 3, null, 3, null]);
    expect(chart('loss', given).csv().columns.at(-1)).toBe('island');
    expect(
      chart('loss', given)
        .csv()
        .rows.map((row) => row.at(-1)),
    ).toEqual([0, 1, 0, 1, 0, 1, 0]);
    const window = { ...given, window: [3, 4] as const };
    expect(line('loss', 'mean', window).filter((value) => value !== null)).toEqual([3]);
  });

  test('with islands what is learned goes by numbers, what is done by the order in which it was done', () => {
    // Island 1's turn of two steps, then island 2's; a donor more came between the two.
    const done = [0, 2, 1, 3].map((number, step) =>
      stepAt(step, { number, island: number % 2, donors: step < 2 ? 1 : 2, learningRate: number }),
    );
    const given = { steps: done, islands: [0, 1] };
    expect(line('donors', 'donors', given)).toEqual([1, 1, 2, 2]);
    expect(line('rate', 'rate', given)).toEqual([0, 1, 2, 3]);
    expect(
      chart('donors', given)
        .csv()
        .rows.map(([number, donors]) => [number, donors]),
    ).toEqual([
      ...[
        [0, 1],
        [2, 1],
        [1, 2],
        [3, 2],
      ],
    ]);
  });

  test('of many islands the lowest, the highest and the mean', () => {
    const done = arrayOf(24, (step) => stepAt(step, { number: step, island: step % 12, loss: step }));
    const given = { steps: done, islands: arrayOf(12, (island) => island) };
    expect(chart('loss', given).lines.map(({ label }) => label)).toEqual([
      ...['lowest of 12 islands', 'highest', 'mean', 'on unseen text'],
    ]);
    expect(line('loss', 'lowest of 12 islands', given)).toEqual([0, 12]);
    expect(line('loss', 'highest', given)).toEqual([11, 23]);
    expect(line('loss', 'mean', given)).toEqual([5.5, 17.5]);
  });

  test('where islands end and others begin each has its curve, and the mean goes on', () => {
    // Islands 1 and 3 are left; island 2 ended after its first step, and island 3 began then.
    const done = [0, 1, 0, 2, 0, 2].map((island, number) =>
      stepAt(number, { number, island, loss: [4, 2, 8][island] ?? 0 }),
    );
    const given = { steps: done, islands: [0, 2] };
    expect(chart('loss', given).lines.map(({ label }) => label)).toEqual([
      ...['island 1', 'island 2', 'island 3', 'mean', 'on unseen text'],
    ]);
    expect(line('loss', 'island 2', given)).toEqual([null, 2, null, null, null, null]);
    expect(line('loss', 'island 3', given)).toEqual([null, null, null, 8, null, 8]);
    expect(line('loss', 'mean', given)).toEqual([null, 3, null, 6, null, 6]);
    // Of more than are drawn those that are left.
    const many = arrayOf(20, (number) => stepAt(number, { number, island: number }));
    expect(
      chart('loss', { steps: many, islands: [18, 19] })
        .lines.map(({ label }) => label)
        .slice(0, 3),
    ).toEqual(['island 19', 'island 20', 'mean']);
  });

  test('held-out losses and other runs stand at their own steps beside this one’s', () => {
    const given = {
      steps: steps(4),
      evaluations: [
        [0, 6],
        [3, 4],
      ] as [number, number][],
      compared: [{ run: 'other', steps: steps(6, () => ({ loss: 2 })), evaluations: [] }],
    };
    expect(chart('loss', given).xs).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect(line('loss', 'on unseen text', given)).toEqual([6, null, null, 4, null, null, null]);
    expect(line('loss', 'other', given)).toEqual([null, 2, 2, 2, 2, 2, 2]);
    expect(line('loss', 'each step', given)).toEqual([null, 1, 1, 1, 1, null, null]);
    expect(line('time', 'other', given)).toEqual([1, 1, 1, 1, 1, 1]);
    expect(line('time', 'each step', given)).toEqual([1, 1, 1, 1, null, null]);
  });

  test('a window cuts what is drawn and what goes into the file, not what the smoothing knows', () => {
    const given = { steps: steps(10, (step) => ({ loss: step })), window: [9, 10] as const, smoothing: 0.5 };
    expect(chart('loss', given).xs).toEqual([9, 10]);
    expect(line('loss', 'smoothed', given)[1]).not.toBe(9);
    const { columns, rows } = chart('traffic', given).csv();
    expect(csv(columns, rows)).toBe('step,bytesDirect,bytesRelayed\n8,1000,0\n9,1000,0\n');
  });

  test('an idle share that is not known is no zero', () => {
    const given = { steps: [stepAt(0), stepAt(1, { bubble: 0.25 })] };
    expect(line('idle', 'idle', given)).toEqual([null, 0.25]);
  });

  test('traffic by kind is what went out and came back; the file has each, and nothing where a plan is not kept', () => {
    const traffic = { activation: 4, gradient: 3, slice: 2, values: 1 };
    const given = { steps: [stepAt(0), stepAt(1, { traffic })] };
    expect(line('kinds', 'activations and their gradients', given)).toEqual([null, 7]);
    expect(line('kinds', 'weights’ gradients and new weights', given)).toEqual([null, 3]);
    const { columns, rows } = chart('kinds', given).csv();
    expect(csv(columns, rows)).toBe('step,activationBytes,gradientBytes,sliceBytes,valuesBytes\n0,,,,\n1,4,3,2,1\n');
  });

  test('with islands what is sent beside its step’s own tensors was a meeting’s', () => {
    const traffic = { activation: 4, gradient: 3, slice: 2, values: 1 };
    const given = {
      steps: [
        stepAt(0),
        stepAt(1, { traffic, bytesDirect: 10 }),
        stepAt(2, { traffic, bytesDirect: 30, bytesRelayed: 5 }),
      ],
      islands: [0],
    };
    expect(line('kinds', 'meetings', given)).toEqual([null, 0, 25]);
    expect(
      chart('kinds', given)
        .csv()
        .rows.map((row) => row.at(-1)),
    ).toEqual([null, 0, 25]);
  });

  test('beside counts stand whole numbers alone: one donor is at 1, and nothing is between 0 and 1', () => {
    expect(chart('donors', { steps: steps(3) }).isWhole).toBe(true);
    expect(chart('time', { steps: steps(3) }).isWhole).toBe(false);
    expect(wholeSplits(0, 1.08, 0.5)).toEqual([0, 1]);
    expect(wholeSplits(0, 8.64, 2.5)).toEqual([0, 3, 6]);
    expect(wholeSplits(0, 108, 20)).toEqual([0, 20, 40, 60, 80, 100]);
    expect(wholeSplits(0.2, 0.8, 0.1)).toEqual([]);
  });

  test('says in one sentence what it shows', () => {
    expect(summaryOf(chart('donors', { steps: steps(3) }))).toBe(
      'Donors, steps 1 to 3: donors from 2 to 2; stages from 2 to 2.',
    );
    expect(summaryOf(chart('speed', {}))).toBe('Speed: no step is done yet.');
  });
});

describe('marks', () => {
  const event = (kind: EventKind, step: number) => ({ kind, step });
  test('one for each kind and step of the window, each with a glyph of its own', () => {
    const events = [event('joined', 1), event('joined', 1), event('plan', 1), event('gone', 5), event('rollBack', 9)];
    const marks = marksOf(events, new Set<EventKind>(['joined', 'plan', 'gone']), [0, 5]);
    expect(marks.map(({ at, word }) => [at, word])).toEqual([
      [1, 'Joined'],
      [1, 'New plan'],
      [5, 'Lost'],
    ]);
    expect(new Set(marks.map(({ glyph }) => glyph)).size).toBe(3);
  });
});

test('a view of the charts is an address, and the address is that view', () => {
  for (const view of [
    PLAIN_VIEW,
    { window: [100, 250], smoothing: 0.9, isLog: true },
    { window: null, smoothing: 0, isLog: false },
  ] as const) {
    expect(viewOf(viewText(view))).toEqual(view);
    expect(sectionOf(viewText(view))).toBe('run');
  }
  expect(viewText(PLAIN_VIEW)).toBe('#run');
  for (const wrong of [
    '#run?from=9&to=3',
    '#run?from=x&to=3',
    '#run?smooth=2',
    '#run?from=-1&to=3',
    '#run?from=1.5&to=3',
  ])
    expect(viewOf(wrong)).toEqual(PLAIN_VIEW);
});
