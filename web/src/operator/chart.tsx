/**
 * One chart: uPlot on a canvas for the eye, a sentence and a table for everyone else, a file for a spreadsheet. uPlot is
 * owned here: made once, fed, destroyed with the card. Colours are the page's own, asked for whenever it draws, so that
 * light and dark need nothing else.
 */
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { countText, NOTHING } from '../page/format.ts';
import { SmallButton } from '../page/parts.tsx';
import { saveBlob } from '../page/save.ts';
import { type Column, Folded, numbers, Stacks } from '../page/stacks.tsx';
import { type Chart, summaryOf, wholeSplits } from './charts.ts';
import type { Mark } from './marks.ts';
import { csv, groupsOf, type Line, movedWindow, positive, type StepWindow, type Tone } from './series.ts';

const HEIGHT = 210;
const TABLE_ROWS = 30;
/** Above the plot in a picture of it. */
const PICTURE_HEAD = 32;
/** Above the plot: the glyphs of the marks. */
const MARKS_HEIGHT = 14;
/** Half of the widest label of a step: the last one stands under the plot's very edge. */
const LABEL_HALF = 26;
const DASHES: Readonly<Record<Line['pattern'], number[]>> = {
  solid: [],
  thin: [],
  points: [],
  dashed: [7, 4],
  dotted: [2, 3],
};

export interface ChartProps {
  readonly chart: Chart;
  readonly marks: readonly Mark[];
  readonly window: StepWindow;
  readonly onWindow: (window: StepWindow) => void;
  /** The first and the last step that there are. */
  readonly extent: readonly [number, number];
  /** In the name of its file. */
  readonly run: string;
}

export function ChartCard({ run, ...plotted }: ChartProps) {
  const [place, look] = useState<number | null>(null);
  const { chart } = plotted;
  const { id, title, note, lines, xs, format } = chart;
  const isEmpty = xs.length === 0;
  const save = (): void => {
    const { columns, rows } = chart.csv();
    saveBlob(`${run}-${id}.csv`, new Blob([csv(columns, rows)], { type: 'text/csv' }));
  };
  const picture = (button: Element): void => {
    const plot = button.closest('.chart')?.querySelector('canvas');
    if (!plot) return;
    const style = getComputedStyle(plot);
    const names = lines.map(({ label }) => label).join(', ');
    drawnWithTitle(plot, `${run}: ${title} (${names})`, style).toBlob((blob) => {
      if (blob) saveBlob(`${run}-${id}.png`, blob);
    });
  };
  return (
    <>
      <h3 id={`chart-${id}`}>{title}</h3>
      <p class="note">{note}</p>
      <Plot {...plotted} onPlace={look} />
      <ul class="keys">
        {lines.map((line) => (
          <li key={line.label}>
            <Swatch line={line} />
            <span>{line.label}</span> <strong>{valueText(line, place, format)}</strong>
          </li>
        ))}
        <li class="at">{place === null ? 'newest' : stepWord(xs[place])}</li>
      </ul>
      <Numbers chart={chart}>
        <p class="buttons">
          <SmallButton about={`of ${title}`} disabled={isEmpty} onClick={(event) => picture(event.currentTarget)}>
            PNG
          </SmallButton>
          <SmallButton about={`of ${title}`} disabled={isEmpty} onClick={save}>
            CSV
          </SmallButton>
        </p>
      </Numbers>
    </>
  );
}

const stepWord = (step: number | undefined): string => `step ${step === undefined ? NOTHING : countText(step)}`;

/** The plot on the card's ground, under what it is: a picture that can stand alone. */
function drawnWithTitle(plot: HTMLCanvasElement, words: string, style: CSSStyleDeclaration): HTMLCanvasElement {
  const ratio = devicePixelRatio;
  const head = Math.round(PICTURE_HEAD * ratio);
  const canvas = document.createElement('canvas');
  canvas.width = plot.width;
  canvas.height = plot.height + head;
  const context = canvas.getContext('2d');
  if (context === null) return canvas;
  context.fillStyle = style.getPropertyValue('--card');
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = style.getPropertyValue('--ink');
  context.font = `600 ${14 * ratio}px system-ui, sans-serif`;
  context.textBaseline = 'middle';
  context.fillText(words, 10 * ratio, head / 2);
  context.drawImage(plot, 0, head);
  return canvas;
}

function valueText({ values }: Line, place: number | null, format: Chart['format']): string {
  const value = place === null ? values.findLast((each) => each !== null) : values[place];
  return value === null || value === undefined ? NOTHING : format(value);
}

/** The line's own pattern, as in the plot. */
function Swatch({ line: { tone, pattern } }: { line: Line }) {
  return (
    <svg viewBox="0 0 26 8" class={`swatch ${tone}`} aria-hidden="true">
      {pattern === 'points' ? (
        <circle cx="13" cy="4" r="3" />
      ) : (
        <path d="M0 4H26" stroke-dasharray={DASHES[pattern].join(' ')} stroke-width={pattern === 'thin' ? 1 : 2.5} />
      )}
    </svg>
  );
}

/** In a table and as files. */
function Numbers({ chart, children }: { readonly chart: Chart; readonly children: ComponentChildren }) {
  const { xs, lines, format, title } = chart;
  const columns: readonly Column<number>[] = [
    { name: 'Step', look: 'head', of: (place) => xs[place] },
    ...lines.map((line) => numbers<number>(line.label, (place) => valueText(line, place, format))),
  ];
  return (
    <Folded class="numbers" summary="Numbers">
      {() => (
        <>
          {children}
          <Stacks
            label={`${title} in numbers`}
            columns={columns}
            rows={groupsOf(xs.length, TABLE_ROWS).map(([, to]) => to - 1)}
          />
        </>
      )}
    </Folded>
  );
}

interface PlotProps extends Omit<ChartProps, 'run'> {
  readonly onPlace: (place: number | null) => void;
}

/** What uPlot's callbacks read: always the newest. */
interface Live extends PlotProps {
  readonly colour: (tone: string) => string;
}

function Plot(props: PlotProps) {
  const { chart } = props;
  const around = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const live = useRef<Live>({ ...props, colour: () => '#888' });
  live.current = { ...props, colour: live.current.colour };
  // Another set of lines is another plot.
  const shape = `${chart.id} ${chart.isLog} ${chart.lines.map(({ label, tone, pattern }) => [label, tone, pattern]).join('|')}`;
  const data = useMemo(
    () =>
      [
        [...chart.xs],
        ...chart.lines.map(({ values }) => (chart.isLog ? positive(values) : [...values])),
      ] as uPlot.AlignedData,
    [chart],
  );

  useEffect(() => {
    const element = around.current;
    if (element === null) return;
    const style = getComputedStyle(element);
    live.current = { ...live.current, colour: (tone) => style.getPropertyValue(`--${tone}`) };
    const made = new uPlot(optionsOf(live, element.clientWidth), data, element);
    plot.current = made;
    const sized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    sized.observe(element);
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    const redraw = (): void => made.redraw();
    scheme.addEventListener('change', redraw);
    return () => {
      scheme.removeEventListener('change', redraw);
      sized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape]);

  useEffect(() => plot.current?.setData(data), [data, props.marks]);

  return <div ref={around} class="plot" role="img" aria-label={summaryOf(chart)} />;
}

function optionsOf(live: { readonly current: Live }, width: number): uPlot.Options {
  const { chart } = live.current;
  const colour = (tone: string) => (): string => live.current.colour(tone);
  const axis: uPlot.Axis = {
    stroke: colour('soft'),
    font: '12px system-ui, sans-serif',
    grid: { stroke: colour('line'), width: 1 },
    ticks: { show: false },
  };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    padding: [MARKS_HEIGHT + 4, LABEL_HALF, 0, 0],
    cursor: {
      y: false,
      points: { size: 7 },
      drag: { x: true, y: false, setScale: false },
      bind: {
        mousedown: (plot, _place, select) => (event) => {
          if (!event.shiftKey) return select(event);
          pan(plot, event.clientX, live);
          return null;
        },
        dblclick: () => () => {
          live.current.onWindow(null);
          return null;
        },
      },
    },
    scales: {
      x: { time: false, range: (_plot, low, high) => xRange(live.current.window, low, high) },
      y: { distr: chart.isLog ? 3 : 1, ...(chart.fromZero ? { range: rangeFromZero } : {}) },
    },
    axes: [
      {
        ...axis,
        size: 30,
        values: (_plot, splits) => splits.map((at) => (Number.isInteger(at) ? at.toLocaleString('en') : '')),
      },
      {
        ...{ ...axis, size: 62, values: (_plot, splits) => labels(splits, chart.format) },
        ...(chart.isWhole ? { splits: (_plot, _axis, low, high, apart) => wholeSplits(low, high, apart) } : {}),
      },
    ],
    series: [{}, ...chart.lines.map((line) => seriesOf(line, colour))],
    hooks: {
      setCursor: [({ cursor: { idx } }) => live.current.onPlace(idx ?? null)],
      setSelect: [(plot) => zoom(plot, live.current)],
      draw: [(plot) => drawMarks(plot, live.current)],
    },
  };
}

/** To what was selected, where that is more than a press. */
function zoom(plot: uPlot, { onWindow }: Live): void {
  const { left, width } = plot.select;
  if (width < 4) return;
  const [from, to] = [plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x')];
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  onWindow([Math.floor(from), Math.max(Math.ceil(to), Math.floor(from) + 2)]);
}

/** With Shift held the steps go along with the pointer, until it is let go. */
function pan(plot: uPlot, fromX: number, { current: { window, extent, onWindow } }: { readonly current: Live }): void {
  const moves = new AbortController();
  const stepsOf = (pixels: number): number => Math.round(plot.posToVal(0, 'x') - plot.posToVal(pixels, 'x'));
  const move = ({ clientX }: MouseEvent): void => onWindow(movedWindow(window, extent, stepsOf(clientX - fromX)));
  addEventListener('mousemove', move, { signal: moves.signal });
  addEventListener('mouseup', () => moves.abort(), { signal: moves.signal });
}

/** Where two of them read alike, one is enough. */
function labels(splits: readonly (number | null)[], format: Chart['format']): string[] {
  const texts = splits.map((at) => (at === null ? '' : format(at)));
  return texts.map((text, place) => (text === texts[place - 1] ? '' : text));
}

function xRange(window: StepWindow, low: number | null, high: number | null): [number, number] {
  const [from, to] = window ?? [low ?? 0, high ?? 1];
  return from < to ? [from, to] : [from, from + 1];
}

const rangeFromZero = (_plot: uPlot, _low: number | null, high: number | null): [number, number] => [
  0,
  high === null || high <= 0 ? 1 : high * 1.08,
];

/** A line of one point is a dot: there is nothing to draw it to. */
function isSingle({ data }: uPlot, index: number, from: number, to: number): boolean {
  const seen = data[index]?.slice(from, to + 1) ?? [];
  return [...seen].filter((value) => value != null).length === 1;
}

function seriesOf({ label, tone, pattern }: Line, colour: (tone: Tone) => () => string): uPlot.Series {
  const isPoints = pattern === 'points';
  return {
    label,
    stroke: colour(tone),
    width: pattern === 'thin' ? 1 : 2,
    dash: DASHES[pattern],
    spanGaps: true,
    points: { show: isPoints || isSingle, size: 6, fill: colour(tone) },
    ...(isPoints ? { dash: [1, 3], width: 1 } : {}),
  };
}

function drawMarks(plot: uPlot, { marks, colour }: Live): void {
  const { ctx, bbox } = plot;
  const ratio = bbox.width / Math.max(1, plot.over.clientWidth);
  ctx.save();
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'bottom';
  ctx.lineWidth = ratio;
  ctx.setLineDash([2 * ratio, 4 * ratio]);
  const first = plot.scales.x?.min ?? 0;
  for (const { at, glyph, tone } of marks) {
    // What came before the first step stands at its edge.
    if (at < first - 1) continue;
    const x = plot.valToPos(Math.max(at, first), 'x', true);
    if (x > bbox.left + bbox.width + 1) continue;
    ctx.strokeStyle = colour(tone);
    ctx.fillStyle = colour(tone);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillText(glyph, x, bbox.top - 1);
  }
  ctx.restore();
}
