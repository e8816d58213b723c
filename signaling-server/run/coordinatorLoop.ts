/**
 * The coordinator with a clock: events in, effects out, each event handled to its last effect before the next one. It owns
 * the state and the timer of its next deadline; it decides nothing, and what it asks for is done by its host.
 */

import type { CoordinatorConfig, CoordinatorEvent, Effect, StartState } from '../../swarm/coordinator/events.ts';
import { begin, type CoordinatorState, nextDeadline } from '../../swarm/coordinator/state.ts';
import { step } from '../../swarm/coordinator/step.ts';
import type { Recording } from '../../swarm/recording/recording.ts';
import { monotonicMs } from '../monitoring/clock.ts';

/** setTimeout takes no longer waits. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export interface LoopHost {
  perform(effect: Effect): void;
  /** Something threw over this event. `isHalfDone`: while its effects were performed; else nothing has changed. */
  failed(event: CoordinatorEvent, error: unknown, isHalfDone: boolean): void;
  /** An event is handled, with those that came of it. */
  handled(): void;
}

export class CoordinatorLoop {
  readonly #config: CoordinatorConfig;
  readonly #host: LoopHost;
  readonly #recording: Recording<void> | null;
  /** Events that come while another one is being handled wait their turn. */
  readonly #events: CoordinatorEvent[] = [];
  #state: CoordinatorState;
  #timer: NodeJS.Timeout | undefined;
  #busy = false;
  #closed = false;

  constructor(config: CoordinatorConfig, start: StartState, host: LoopHost, recording: Recording<void> | null) {
    this.#config = config;
    this.#host = host;
    this.#recording = recording;
    this.#state = this.#begin(start);
  }

  get state(): CoordinatorState {
    return this.#state;
  }

  /** From what the store knows, with nobody there yet; what waited is of the state before. */
  beginAgain(start: StartState): void {
    this.#events.length = 0;
    this.#state = this.#begin(start);
  }

  dispatch(event: CoordinatorEvent): void {
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

  #begin(start: StartState): CoordinatorState {
    const state = begin(this.#config, start);
    this.#recording?.began(this.#config, start, state, monotonicMs());
    return state;
  }

  /**
   * `step` is pure: an event that it throws over never happened. An effect that throws leaves some of them performed and
   * others not, which is what a killed server leaves behind too: the host has to begin again from its store.
   */
  #handle(event: CoordinatorEvent): void {
    let isHalfDone = false;
    try {
      const effects = this.#decide(event);
      isHalfDone = true;
      for (const effect of effects) this.#host.perform(effect);
    } catch (error) {
      this.#host.failed(event, error, isHalfDone);
    }
  }

  #decide(event: CoordinatorEvent): readonly Effect[] {
    const now = monotonicMs();
    let effects: readonly Effect[] = [];
    try {
      [this.#state, effects] = step(this.#state, event, now);
      return effects;
    } finally {
      this.#recording?.decided(event, this.#state, effects, now);
    }
  }

  /** No event is handled any more. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  #setTimer(): void {
    clearTimeout(this.#timer);
    const deadline = nextDeadline(this.#state);
    if (deadline === null || this.#closed) return;
    const waitMs = Math.min(LONGEST_TIMER_MS, Math.max(0, deadline - monotonicMs()));
    this.#timer = setTimeout(() => this.dispatch({ type: 'deadlineReached' }), waitMs);
  }
}
