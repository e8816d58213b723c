/**
 * The decisions with a clock: events in, effects out, each event handled to its last effect before the next one. It owns
 * the state and the timer of the next deadline; it decides nothing, and what is asked for is done by its host.
 */

import type { StartState } from '../../swarm/coordinator/events.ts';
import {
  begin,
  type DecisionConfig,
  type DecisionEffect,
  type DecisionEvent,
  type DecisionState,
  decide,
  nextDecision,
} from '../../swarm/decisions/decide.ts';
import type { Recording } from '../../swarm/recording/recording.ts';
import { monotonicMs } from '../monitoring/clock.ts';

/** setTimeout takes no longer waits. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export interface LoopHost {
  perform(effect: DecisionEffect): void;
  /** Something threw over this event. `isHalfDone`: while its effects were performed; else nothing has changed. */
  failed(event: DecisionEvent, error: unknown, isHalfDone: boolean): void;
  /** An event is handled, with those that came of it. */
  handled(): void;
}

export class DecisionLoop {
  readonly #host: LoopHost;
  readonly #recording: Recording | null;
  /** Events that come while another one is being handled wait their turn. */
  readonly #events: DecisionEvent[] = [];
  #state: DecisionState;
  #timer: NodeJS.Timeout | undefined;
  #busy = false;
  #closed = false;

  constructor(config: DecisionConfig, start: StartState, host: LoopHost, recording: Recording | null) {
    this.#host = host;
    this.#recording = recording;
    recording?.began(config, start, monotonicMs());
    this.#state = begin(config, start);
    recording?.decided(this.#state, []);
  }

  get state(): DecisionState {
    return this.#state;
  }

  /** From what the store knows, with nobody there yet; what waited is of the state before. */
  beginAgain(start: StartState): void {
    this.#events.length = 0;
    this.#handle({ type: 'restarted', start });
  }

  dispatch(event: DecisionEvent): void {
    // A search may end after the run is closed.
    if (this.#closed) return;
    this.#events.push(event);
    if (this.#busy) return;
    this.#busy = true;
    try {
      for (let next = this.#events.shift(); next !== undefined && !this.#closed; next = this.#events.shift())
        this.#handle(next);
    } finally {
      this.#busy = false;
    }
    this.#setTimer();
    this.#host.handled();
  }

  /**
   * `decide` is pure: an event that it throws over never happened. An effect that throws leaves some of them performed and
   * others not, which is what a killed server leaves behind too: the host has to begin again from its store.
   */
  #handle(event: DecisionEvent): void {
    let isHalfDone = false;
    try {
      const effects = this.#decide(event);
      isHalfDone = true;
      for (const effect of effects) this.#host.perform(effect);
    } catch (error) {
      this.#host.failed(event, error, isHalfDone);
    }
  }

  #decide(event: DecisionEvent): readonly DecisionEffect[] {
    const now = monotonicMs();
    let effects: readonly DecisionEffect[] = [];
    this.#recording?.event(event, now);
    try {
      [this.#state, effects] = decide(this.#state, event, now);
      return effects;
    } finally {
      this.#recording?.decided(this.#state, effects);
    }
  }

  /** No event is handled any more. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  #setTimer(): void {
    clearTimeout(this.#timer);
    const deadline = nextDecision(this.#state);
    if (deadline === null || this.#closed) return;
    const waitMs = Math.min(LONGEST_TIMER_MS, Math.max(0, deadline - monotonicMs()));
    this.#timer = setTimeout(() => this.dispatch({ type: 'deadlineReached' }), waitMs);
  }
}
