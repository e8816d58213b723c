/**
 * A donor's share of its GPU's time: each span of work is followed by enough idle time that it lasts (time when running
 * alone) / speed. The time alone is not known but estimated, for each kind of work, from its newest spans: their lower
 * quartile, because whatever else runs on the machine only makes a span longer. Three things keep donors of one machine,
 * which all begin a step at once, from taking their crowded spans for the time alone: the estimate begins with the
 * admission's forecast, it rises slowly (and so follows a machine that becomes slower within some steps), and a donor
 * whose estimate has risen a tenth among stretched spans steps aside once, by a random part of its idle time.
 */
import { type Forecast, NO_FORECAST, type StageWork } from './forecast.ts';
import { BusyMeter } from './meter.ts';
import { type Clock, Schedule } from './spacing.ts';

/** Spans that the estimate looks back on. */
const SPANS_KEPT = 16;
const QUARTILE = 0.25;
/** The estimate falls at once and rises by this a span: a slower machine is believed after some, a crowd is over by then. */
const RISE = 1.005;
/** Timers are late, and so is a commit: so much of it is caught up on. On average the share is never exceeded. */
const SLACK_SECONDS = 0.1;
/** A span so much longer than alone: something else ran, perhaps another donor that has the same rhythm. */
const CROWDED = 1.2;
/** An estimate that has risen so much among such spans may be a crowd's. */
const DOUBTFUL_RISE = 1.1;

/** What is done in one span: spans of equal work are compared. */
export type Work = StageWork | { readonly op: 'norms' | 'update' };

export interface Pace {
  /** Submits work when its turn has come. At less than full speed resolves when it is computed. */
  run(work: Work, submit: () => void, settled: () => Promise<void>): Promise<void>;
}

/** As fast as can be. */
export const FULL_SPEED: Pace = {
  run: async (_work, submit) => submit(),
};

/** Of one kind of work. */
interface Known {
  /** The newest, in seconds. */
  readonly spans: number[];
  /** The estimate of the time when running alone. */
  alone: number;
  /** The least estimate since this donor stepped aside. */
  trusted: number;
}

export class DutyCycle implements Pace {
  speed = 1;
  forecast: Forecast = NO_FORECAST;
  readonly #clock: Clock;
  readonly #busy: BusyMeter;
  readonly #schedule: Schedule;
  readonly #random: () => number;
  readonly #known = new Map<string, Known>();

  constructor(clock: Clock, busy: BusyMeter = new BusyMeter(clock.now), random: () => number = Math.random) {
    this.#clock = clock;
    this.#busy = busy;
    this.#random = random;
    this.#schedule = new Schedule(clock, SLACK_SECONDS);
  }

  async run(work: Work, submit: () => void, settled: () => Promise<void>): Promise<void> {
    await this.#schedule.turn();
    const begun = this.#clock.now();
    this.#busy.begin();
    submit();
    const done = settled().finally(() => this.#busy.end());
    if (this.speed === 1) {
      done.catch(() => undefined); // a lost device ends the step elsewhere
      return;
    }
    await done;
    const span = this.#clock.now() - begun;
    const known = this.#learn(work, span);
    this.#schedule.take(known.alone / this.speed, begun);
    if (span <= CROWDED * known.alone || known.alone <= DOUBTFUL_RISE * known.trusted) return;
    known.trusted = known.alone;
    this.#schedule.take(this.#random() * (known.alone / this.speed - known.alone));
  }

  /** What is known of this kind of work, now that it took a span more. */
  #learn(work: Work, span: number): Known {
    const kind = JSON.stringify(work);
    const known = this.#known.get(kind) ?? this.#foreseen(work);
    this.#known.set(kind, known);
    known.spans.push(span);
    if (known.spans.length > SPANS_KEPT) known.spans.shift();
    const sorted = known.spans.toSorted((a, b) => a - b);
    const quartile = sorted[Math.floor((sorted.length - 1) * QUARTILE)] ?? span;
    known.alone = Math.min(quartile, known.alone * RISE);
    known.trusted = Math.min(known.trusted, known.alone);
    return known;
  }

  #foreseen(work: Work): Known {
    const alone = ('layers' in work ? this.forecast(work) : null) ?? Number.POSITIVE_INFINITY;
    return { spans: [], alone, trusted: alone };
  }
}
