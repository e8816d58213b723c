/** The charts of a run over one stretch of steps, and the controls that they share; those that few ask for are drawn when they are. */
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { EventKind, WatchedEvent, WatchedStep } from '../../../swarm/messages/watch.ts';
import { Tick } from '../page/fields.tsx';
import { SmallButton } from '../page/parts.tsx';
import { Folded } from '../page/stacks.tsx';
import { query, read, stepsSchema } from './api.ts';
import { ChartCard, type ChartProps } from './chart.tsx';
import {
  type ChartInput,
  type ChartView,
  type ComparedRun,
  chartsOf,
  type Drawing,
  MOST_COMPARED,
  viewOf,
  viewText,
} from './charts.ts';
import { DrawnWhenSeen } from './drawnWhenSeen.tsx';
import { EVENT_SIGNS, type EventSign, marksOf } from './marks.ts';
import { useRuns } from './runList.ts';
import { changedWindow, type StepWindow } from './series.ts';

/** Of those that are seen at once. */
const LAST_OF_FIRST = 'speed';

interface ChartPanelProps extends Pick<ChartInput, 'evaluations' | 'answers' | 'lossPer'> {
  readonly run: string;
  readonly curve: readonly WatchedStep[];
  readonly events: readonly WatchedEvent[];
  /** Those that the run has now, by their numbers; null: it is one swarm. */
  readonly islands: readonly number[] | null;
  /** Between the first charts and the rest. */
  readonly children: ComponentChildren;
}

const MARKED: readonly EventKind[] = ['joined', 'left', 'gone', 'plan', 'checkpoint', 'rollBack'];
const MARK_OPTIONS = MARKED.map((kind) => ({ value: kind, word: EVENT_SIGNS[kind].word, sign: EVENT_SIGNS[kind] }));

/** Other runs' steps, read when they are chosen. */
function useCompared(chosen: readonly string[]): readonly ComparedRun[] {
  const [known, learn] = useState<ReadonlyMap<string, ComparedRun>>(new Map());
  useEffect(() => {
    for (const run of chosen) {
      if (known.has(run)) continue;
      void read(query('/api/operator/steps', { run }), stepsSchema).then((answer) => {
        if (answer.ok) learn((before) => new Map(before).set(run, { run, ...answer.value }));
      });
    }
  }, [chosen]);
  return useMemo(() => chosen.flatMap((run) => known.get(run) ?? []), [chosen, known]);
}

export function ChartPanel({ run, curve, events, islands, children, ...measured }: ChartPanelProps) {
  const { evaluations, answers, lossPer } = measured;
  const [{ window, smoothing, isLog }, view] = useState<ChartView>(() => viewOf(location.hash));
  const show = (chosen: StepWindow): void => view((now) => ({ ...now, window: chosen }));
  const smooth = (weight: number): void => view((now) => ({ ...now, smoothing: weight }));
  const useLog = (is: boolean): void => view((now) => ({ ...now, isLog: is }));
  const [kinds, mark] = useState<ReadonlySet<EventKind>>(new Set(['gone', 'plan', 'rollBack']));
  const [chosen, choose] = useState<readonly string[]>([]);
  const compared = useCompared(chosen);
  const [{ runs }] = useRuns(run);
  const others = runs.filter(({ name, committedSteps }) => name !== run && committedSteps > 0);
  const charts = useMemo(
    () => chartsOf({ steps: curve, evaluations, answers, lossPer, window, smoothing, isLog, compared, islands }),
    [curve, evaluations, answers, lossPer, window, smoothing, isLog, compared, islands],
  );
  const first = charts.findIndex(({ id }) => id === LAST_OF_FIRST) + 1;
  const choice = useMemo(() => ({}), [window, smoothing, isLog, compared, kinds]);
  const marks = useMemo(() => marksOf(events, kinds, window), [events, kinds, window]);
  const extent = [(curve[0]?.step ?? 0) + 1, (curve.at(-1)?.step ?? 0) + 1] as const;
  const drawn = (all: readonly Drawing[]) => (
    <div class="charts">
      {all.map(({ id, draw }) => (
        <DrawnWhenSeen key={id} tag="section" class="card chart" labelledBy={`chart-${id}`} renew={choice}>
          <Drawn draw={draw} marks={marks} window={window} onWindow={show} extent={extent} run={run} />
        </DrawnWhenSeen>
      ))}
    </div>
  );
  if (curve.length === 0) return children;
  return (
    <>
      {drawn(charts.slice(0, first))}
      {children}
      <section class="card chart-controls" aria-labelledby="charts">
        <h2 id="charts">Charts</h2>
        <LineControls smoothing={smoothing} smooth={smooth} isLog={isLog} useLog={useLog} />
        <WindowControls window={window} extent={extent} show={show} />
        <ShareView view={{ window, smoothing, isLog }} />
        <Checks legend="Marks" options={MARK_OPTIONS} chosen={kinds} choose={(all) => mark(new Set(all))} />
        {others.length > 0 && (
          <Checks
            legend="Compare with"
            options={others.map(({ name }) => ({ value: name, word: name }))}
            chosen={new Set(chosen)}
            most={MOST_COMPARED}
            choose={choose}
          />
        )}
      </section>
      <Folded class="more-charts" summary="More charts">
        {() => drawn(charts.slice(first))}
      </Folded>
    </>
  );
}

function Drawn({ draw, ...rest }: Omit<ChartProps, 'chart'> & Pick<Drawing, 'draw'>) {
  return <ChartCard chart={useMemo(draw, [draw])} {...rest} />;
}

/** The address of what is seen, for somebody else who may log in. */
function ShareView({ view }: { readonly view: ChartView }) {
  const [answer, say] = useState('');
  const link = `${location.origin}/operator${viewText(view)}`;
  const copy = async (): Promise<void> => {
    history.replaceState(null, '', viewText(view));
    try {
      await navigator.clipboard.writeText(link);
      say('Copied.');
    } catch {
      // Refused, or there is none: the page is neither https nor localhost.
      say('The link is in the address bar.');
    }
  };
  return (
    <div class="buttons">
      <SmallButton onClick={() => void copy()}>Copy a link to this view</SmallButton>
      <span role="status" class="soft small">
        {answer}
      </span>
    </div>
  );
}

interface LineProps {
  readonly smoothing: number;
  readonly smooth: (weight: number) => void;
  readonly isLog: boolean;
  readonly useLog: (isLog: boolean) => void;
}

function LineControls({ smoothing, smooth, isLog, useLog }: LineProps) {
  return (
    <div class="controls">
      <span class="inline">
        <label for="smoothing">Smoothing</label>
        <input
          id="smoothing"
          type="range"
          min="0"
          max="0.99"
          step="0.01"
          value={smoothing}
          onInput={(event) => smooth(Number(event.currentTarget.value))}
        />
        <output for="smoothing">{smoothing.toFixed(2)}</output>
      </span>
      <Tick checked={isLog} onChange={useLog}>
        Logarithmic loss
      </Tick>
    </div>
  );
}

interface Option<Value> {
  readonly value: Value;
  readonly word: string;
  readonly sign?: EventSign;
}

interface ChecksProps<Value> {
  readonly legend: string;
  readonly options: readonly Option<Value>[];
  readonly chosen: ReadonlySet<Value>;
  /** That may be chosen at once. */
  readonly most?: number;
  readonly choose: (chosen: readonly Value[]) => void;
}

/** Any of several. */
function Checks<Value extends string>({ legend, options, chosen, most = Infinity, choose }: ChecksProps<Value>) {
  return (
    <fieldset class="checks">
      <legend>{legend}</legend>
      {options.map(({ value, word, sign }) => (
        <label key={value} class="check">
          <input
            type="checkbox"
            checked={chosen.has(value)}
            disabled={!chosen.has(value) && chosen.size >= most}
            onChange={() =>
              choose(chosen.has(value) ? [...chosen].filter((each) => each !== value) : [...chosen, value])
            }
          />
          {sign && (
            <span class={`mark ${sign.tone}`} aria-hidden="true">
              {sign.glyph}
            </span>
          )}
          <span>{word}</span>
        </label>
      ))}
    </fieldset>
  );
}

const CHANGES = [
  ['closer', 'Closer', '+'],
  ['wider', 'Wider', '−'],
  ['back', 'Earlier', '←'],
  ['on', 'Later', '→'],
] as const;

interface WindowProps {
  readonly window: StepWindow;
  readonly extent: readonly [number, number];
  readonly show: (window: StepWindow) => void;
}

function WindowControls({ window, extent, show }: WindowProps) {
  const [from, to] = window ?? extent;
  return (
    <div class="buttons window">
      {CHANGES.map(([change, name, glyph]) => (
        <button
          key={change}
          type="button"
          class="small"
          disabled={extent[0] >= extent[1] || (window === null && change !== 'closer')}
          onClick={() => show(changedWindow(window, extent, change))}
        >
          <span aria-hidden="true">{glyph} </span>
          {name}
        </button>
      ))}
      <SmallButton disabled={window === null} onClick={() => show(null)}>
        All steps
      </SmallButton>
      <span class="soft small">
        Steps {from.toLocaleString('en')} to {to.toLocaleString('en')}. Drag over a chart to look closer, with Shift to
        move along.
      </span>
    </div>
  );
}
