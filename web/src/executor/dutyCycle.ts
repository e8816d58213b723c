/**
 * A donor's share of its GPU's time: each span of work is followed by enough idle time that it lasts (time when running
 * alone) / speed. The time alone is not known but estimated, for each kind of work: the least of its newest spans, because
 * whatever else runs on the machine only makes a span longer. Donors of one machine begin every step together, and would
 * take the crowd for the time alone. So the estimate begins with what the admission measured and rises slowly, and a donor
 * whose spans are stretched puts some of them elsewhere in their places, at random: where the others are idle.
 */
import { SLACK_SECONDS } from '../../../swarm/limits.ts';
import { type AloneSeconds, type ComputeKind, UNKNOWN } from './aloneSeconds.ts';
import { BusyMeter } from './meter.ts';
import { type Clock, Spacing } from './spacing.ts';

/** Spans that the estimate looks back on. */
const SPANS_KEPT = 16;
/** The estimate falls at once and rises by this a span: a slower machine is believed within some hundred spans. */
const RISE = 1.003;
/** A span so much longer than alone: something else ran, perhaps other donors that have the same rhythm. */
const CROWDED = 1.1;
/** So many of the spans after such a one are put elsewhere. */
const ELSEWHERE = 0.25;

/** What is done in one span: spans of one kind are compared. */
export type WorkKind =
  | ComputeKind
  | { readonly op: 'norms' | 'update' }
  | { readonly op: 'answer'; readonly rows: number };

export interface Throttle {
  /**
   * Submits work when the place before it is over. At less than full speed resolves when it is computed. `idleSeconds`: of
   * the time it took those in which the GPU had nothing to do, as others' parts of a layer were not here.
   */
  run(kind: WorkKind, submit: () => void, settled: () => Promise<void>, idleSeconds?: () => number): Promise<void>;
  /** Seconds that this work is taken to need alone; null: unknown, or nothing is spaced by it. */
  alone(kind: WorkKind): number | null;
}

/** As fast as can be. */
export const FULL_SPEED: Throttle = {
  run: async (_work, submit) => submit(),
  alone: () => null,
};

/** Of one kind of work. */
interface Known {
  /** The newest, in seconds. */
  readonly spans: number[];
  /** The estimate of the time when running alone. */
  alone: number;
}

export class DutyCycle implements Throttle {
  speed = 1;
  admitted: AloneSeconds = UNKNOWN;
  readonly #clock: Clock;
  readonly #busy: BusyMeter;
  readonly #spacing: Spacing;
  readonly #random: () => number;
  readonly #known = new Map<string, Known>();

  constructor(clock: Clock, busy: BusyMeter = new BusyMeter(clock.now), random: () => number = Math.random) {
    this.#clock = clock;
    this.#busy = busy;
    this.#random = random;
    this.#spacing = new Spacing(clock, SLACK_SECONDS);
  }

  async run(
    kind: WorkKind,
    submit: () => void,
    settled: () => Promise<void>,
    idleSeconds: () => number = () => 0,
  ): Promise<void> {
    await this.#spacing.untilFree();
    const due = this.#clock.now();
    const known = this.#knownOf(kind);
    const delay = this.speed < 1 ? this.#delay(known) : 0;
    if (delay > 0) await this.#clock.wait(delay);
    const begun = this.#clock.now();
    this.#busy.begin();
    submit();
    const done = settled().finally(() => this.#busy.end(idleSeconds()));
    if (this.speed === 1) {
      done.catch(() => undefined); // a lost device ends the step elsewhere
      return;
    }
    await done;
    learn(known, this.#clock.now() - begun - idleSeconds());
    this.#spacing.take(known.alone / this.speed, due);
  }

  /** Until the place of what was done last is over. */
  get freeInSeconds(): number {
    return this.#spacing.freeInSeconds;
  }

  alone(kind: WorkKind): number | null {
    const { alone } = this.#knownOf(kind);
    return this.speed < 1 && Number.isFinite(alone) ? alone : null;
  }

  /** How far into its place a span begins, in seconds: alone, its work still ends in it. */
  #delay({ spans, alone }: Known): number {
    const isCrowded = (spans.at(-1) ?? 0) > CROWDED * alone;
    if (!isCrowded || this.#random() > ELSEWHERE) return 0;
    return this.#random() * (alone / this.speed - alone);
  }

  #knownOf(kind: WorkKind): Known {
    const key = JSON.stringify(kind);
    const admitted = 'layers' in kind ? this.admitted(kind) : null;
    const known = this.#known.get(key) ?? { spans: [], alone: admitted ?? Number.POSITIVE_INFINITY };
    this.#known.set(key, known);
    return known;
  }
}

/** That this kind of work took a span more. */
function learn(known: Known, span: number): void {
  known.spans.push(span);
  if (known.spans.length > SPANS_KEPT) known.spans.shift();
  known.alone = Math.min(...known.spans, known.alone * RISE);
}
