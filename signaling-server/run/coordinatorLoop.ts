/**
 * The coordinator with a clock: events in, effects out, each event handled to its last effect before the next one. It owns
 * the state and the timer of its next deadline; it decides nothing, and what it asks for is done by its host.
 */

import type { CoordinatorConfig, CoordinatorEvent, Effect, StartState } from '../../swarm/coordinator/events.ts';
import { begin, type CoordinatorState, nextDeadline } from '../../swarm/coordinator/state.ts';
import { step } from '../../swarm/coordinator/step.ts';
import { monotonicMs } from '../monitoring/clock.ts';

/** setTimeout takes no longer waits. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

interface LoopHost {
  perform(effect: Effect): void;
  /** Something threw over this event. `isHalfDone`: while its effects were performed; else nothing has changed. */
  failed(event: CoordinatorEvent, error: unknown, isHalfDone: boolean): void;
  /** An event is handled, with those that came of it. */
  handled(): void;
}

export class CoordinatorLoop {
  readonly #config: CoordinatorConfig;
  readonly #host: LoopHost;
  /** Events that come while another one is being handled wait their turn. */
  readonly #events: CoordinatorEvent[] = [];
  #state: CoordinatorState;
  #timer: NodeJS.Timeout | undefined;
  #busy = false;
  #closed = false;

  constructor(config: CoordinatorConfig, start: StartState, host: LoopHost) {
    this.#config = config;
    this.#host = host;
    this.#state = begin(config, start);
  }

  get state(): CoordinatorState {
    return this.#state;
  }

  /** From what the store knows, with nobody there yet; what waited is of the state before. */
  beginAgain(start: StartState): void {
    this.#events.length = 0;
    this.#state = begin(this.#config, start);
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

  /**
   * `step` is pure: an event that it throws over never happened. An effect that throws leaves some of them performed and
   * others not, which is what a killed server leaves behind too: the host has to begin again from its store.
   */
  #handle(event: CoordinatorEvent): void {
    let isHalfDone = false;
    try {
      const [state, effects] = step(this.#state, event, monotonicMs());
      isHalfDone = true;
      this.#state = state;
      for (const effect of effects) this.#host.perform(effect);
    } catch (error) {
      this.#host.failed(event, error, isHalfDone);
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
