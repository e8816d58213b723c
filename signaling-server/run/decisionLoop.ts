/**
 * The decisions with a clock: events in, effects out, each event handled to its last effect before the next one. It owns
 * the state and the timer of the next deadline; it decides nothing, and what is asked for is done by its host. Where the
 * machine cannot keep what has to be kept, everything stands, and so does its clock, until it can: nothing is undone.
 */

import type { PeerId } from '../../swarm/base.ts';
import type { StartState } from '../../swarm/coordinator/events.ts';
import { isNews } from '../../swarm/coordinator/progress.ts';
import { begin, type DecisionState, decide, nextDecision } from '../../swarm/decisions/decide.ts';
import type { DecisionConfig, DecisionEffect, DecisionEvent } from '../../swarm/decisions/events.ts';
import { stateOf } from '../../swarm/decisions/groups.ts';
import type { HeartbeatMessage } from '../../swarm/messages/messages.ts';
import type { Recording } from '../../swarm/recording/recording.ts';
import { storageProblem } from '../files/storageProblem.ts';
import { monotonicMs } from '../monitoring/clock.ts';

/** How often a disk that could not be written to is tried. */
const RETRY_MS = 2_000;
/** setTimeout takes no longer waits. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export interface LoopHost {
  /** One that threw a storage problem is performed once more, from where it was. */
  perform(effect: DecisionEffect): void;
  /** Throws where nothing can be kept. */
  tryDisk(): Promise<void>;
  /** Told once of each stand, and of each other reason that it comes to have. */
  stands(reason: string): void;
  /** Something threw over this event. `isHalfDone`: while its effects were performed; else nothing has changed. */
  failed(event: DecisionEvent | null, error: unknown, isHalfDone: boolean): void;
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
  #stand: { readonly reason: string; readonly sinceMs: number } | null = null;
  /** What is to be done before the next event. */
  #rest: readonly DecisionEffect[] = [];
  /** How long it stood in all. */
  #stoodMs = 0;
  /** Who has reported since it stood last, which each of them did first of a step that it stood in; null: it never stood. */
  #reportedSince: Set<PeerId> | null = null;

  constructor(config: DecisionConfig, start: StartState, host: LoopHost, recording: Recording | null) {
    this.#host = host;
    this.#recording = recording;
    recording?.began(config, start, monotonicMs());
    this.#state = begin(config, start);
    recording?.decided(this.#state, []);
  }

  /** Why it stands; null: it does not. */
  get standsBecause(): string | null {
    return this.#stand?.reason ?? null;
  }

  /** Milliseconds, monotonic; it stands while the decisions do. */
  now(): number {
    return (this.#stand?.sinceMs ?? monotonicMs()) - this.#stoodMs;
  }

  get state(): DecisionState {
    return this.#state;
  }

  /** From what the store knows, with nobody there yet; what waited is of the state before. */
  beginAgain(start: StartState): void {
    this.#events.length = 0;
    this.#rest = [];
    this.#handle({ type: 'restarted', start });
  }

  dispatch(event: DecisionEvent): void {
    // A search may end after the run is closed.
    if (this.#closed) return;
    this.#events.push(this.#asHeldUp(event));
    this.#handleAll();
  }

  /** Who works on while the run stands is busy for longer than its step lasts by this clock: when, nobody needs to know. */
  #asHeldUp(event: DecisionEvent): DecisionEvent {
    if (event.type !== 'donorSaid' || event.message.type !== 'report') return event;
    if (this.#reportedSince === null || this.#reportedSince.has(event.peer)) return event;
    this.#reportedSince.add(event.peer);
    return { ...event, message: { ...event.message, spans: [] } };
  }

  /** A heartbeat is an event where it says something new of a step that takes long. */
  heard(peer: PeerId, message: HeartbeatMessage): null {
    const { phase } = stateOf(this.#state.groups, peer);
    const isNew = message.at && isNews(phase, peer, message.at, this.now());
    if (isNew) this.dispatch({ type: 'donorSaid', peer, message });
    return null;
  }

  /** Nothing can be kept: everything waits until it can. */
  standStill(reason: string): void {
    if (this.#stand !== null || this.#closed) return;
    this.#stand = { reason, sinceMs: monotonicMs() };
    this.#reportedSince = new Set();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#goOn(), RETRY_MS);
    this.#host.stands(reason);
  }

  /** What is in the way now may be another thing than what was. */
  #standBecause(reason: string): void {
    if (this.#stand === null || this.#stand.reason === reason) return;
    this.#stand = { ...this.#stand, reason };
    this.#host.stands(reason);
  }

  #handleAll(): void {
    if (this.#busy) return;
    this.#busy = true;
    try {
      while (this.#stand === null && !this.#closed) {
        const next = this.#events.shift();
        if (next === undefined) break;
        this.#handle(next);
      }
    } finally {
      this.#busy = false;
    }
    this.#setTimer();
    this.#host.handled();
  }

  async #goOn(): Promise<void> {
    const failure = await this.#host.tryDisk().then(
      () => null,
      (error: unknown) => ({ problem: storageProblem(error) }),
    );
    if (this.#closed || this.#stand === null) return;
    if (failure !== null) {
      this.#standBecause(failure.problem ?? this.#stand.reason);
      this.#timer = setTimeout(() => void this.#goOn(), RETRY_MS);
      return;
    }
    this.#stoodMs += monotonicMs() - this.#stand.sinceMs;
    this.#stand = null;
    const rest = this.#rest;
    this.#rest = [];
    this.#perform(null, rest);
    this.#handleAll();
  }

  /**
   * `decide` is pure: an event that it throws over never happened. An effect that throws leaves some of them performed and
   * others not, which is what a killed server leaves behind too: the host has to begin again from its store.
   */
  #handle(event: DecisionEvent): void {
    let effects: readonly DecisionEffect[];
    try {
      effects = this.#decide(event);
    } catch (error) {
      this.#host.failed(event, error, false);
      return;
    }
    this.#perform(event, effects);
  }

  /** `event`: of which they came; null: it was handled up to here before. */
  #perform(event: DecisionEvent | null, effects: readonly DecisionEffect[]): void {
    for (const [index, effect] of effects.entries()) {
      try {
        this.#host.perform(effect);
      } catch (error) {
        const problem = storageProblem(error);
        if (problem === null) this.#host.failed(event, error, true);
        else {
          this.#rest = effects.slice(index);
          this.standStill(problem);
        }
        return;
      }
    }
  }

  #decide(event: DecisionEvent): readonly DecisionEffect[] {
    const now = this.now();
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
    if (this.#stand !== null) return;
    clearTimeout(this.#timer);
    const deadline = nextDecision(this.#state);
    if (deadline === null || this.#closed) return;
    const waitMs = Math.min(LONGEST_TIMER_MS, Math.max(0, deadline - this.now()));
    this.#timer = setTimeout(() => this.dispatch({ type: 'deadlineReached' }), waitMs);
  }
}
