/**
 * A donor's share of its GPU's time: each span of work is followed by enough idle time that it lasts (time when running
 * alone) / speed. The time alone is not known but estimated, for each kind of work, from its newest spans: their lower
 * quartile, because whatever else runs on the machine only makes a span longer. It follows a machine that becomes slower
 * or faster within some steps.
 */
import { BusyMeter } from './meter.ts';
import { type Clock, Schedule } from './spacing.ts';

/** Spans that the estimate looks back on. */
const SPANS_KEPT = 16;
const QUARTILE = 0.25;
/** Timers are late by some milliseconds. */
const SLACK_SECONDS = 0.02;

export interface Pace {
  /** Submits work of this kind when its turn has come. At less than full speed resolves when it is computed. */
  run(kind: string, submit: () => void, settled: () => Promise<void>): Promise<void>;
}

/** As fast as can be. */
export const FULL_SPEED: Pace = {
  run: async (_kind, submit) => submit(),
};

export class DutyCycle implements Pace {
  speed = 1;
  readonly #clock: Clock;
  readonly #busy: BusyMeter;
  readonly #schedule: Schedule;
  readonly #spans = new Map<string, number[]>();

  constructor(clock: Clock, busy: BusyMeter = new BusyMeter(clock.now)) {
    this.#clock = clock;
    this.#busy = busy;
    this.#schedule = new Schedule(clock, SLACK_SECONDS);
  }

  async run(kind: string, submit: () => void, settled: () => Promise<void>): Promise<void> {
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
    const spans = this.#spans.get(kind) ?? [];
    this.#spans.set(kind, spans);
    spans.push(this.#clock.now() - begun);
    if (spans.length > SPANS_KEPT) spans.shift();
    this.#schedule.take(alone(spans) / this.speed, begun);
  }
}

function alone(spans: readonly number[]): number {
  const sorted = spans.toSorted((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) * QUARTILE)] ?? 0;
}
