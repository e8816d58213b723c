/** Who decides in a rehearsal: the coordinator alone, with plans as a test makes them, or all that decides a run. */
import { invariant } from '../base.ts';
import { begin as beginCoordinator } from '../coordinator/beginning.ts';
import type { CoordinatorConfig, CoordinatorEvent, Effect, PlanAnswer, StartState } from '../coordinator/events.ts';
import { type CoordinatorState, nextDeadline } from '../coordinator/state.ts';
import { step } from '../coordinator/step.ts';
import { begin, type DecisionState, decide, nextDecision, wholeRun } from '../decisions/decide.ts';
import { type DecisionConfig, type DecisionEffect, type DecisionEvent, forCoordinator } from '../decisions/events.ts';
import type { Recording } from '../recording/recording.ts';

type PlannedEvent = Extract<CoordinatorEvent, { type: 'planned' }>;
type PlanWanted = Extract<Effect, { type: 'planWanted' }>;
export type RehearsedEvent = DecisionEvent | PlannedEvent;
export type RehearsedEffect = DecisionEffect | PlanWanted;

/** What is answered at once when a plan is wanted; null: somebody answers later. */
export type Planner = (wanted: PlanWanted) => PlanAnswer | null;

export interface Decider {
  /** From what the store knows. */
  begin(start: StartState): void;
  decide(event: RehearsedEvent, now: number): readonly RehearsedEffect[];
  readonly coordinator: CoordinatorState;
  readonly deadline: number | null;
}

export class CoordinatorAlone implements Decider {
  readonly #config: CoordinatorConfig;
  readonly #planner: Planner;
  coordinator: CoordinatorState;

  constructor(config: CoordinatorConfig, start: StartState, planner: Planner) {
    this.#config = config;
    this.#planner = planner;
    this.coordinator = beginCoordinator(config, start);
  }

  get deadline(): number | null {
    return nextDeadline(this.coordinator);
  }

  /** What was asked for before the server died is answered to nobody: numbers go on, so that no answer is taken for another. */
  begin(start: StartState): void {
    this.coordinator = {
      ...beginCoordinator(this.#config, start),
      asks: this.coordinator.asks,
      warmUps: this.coordinator.warmUps,
    };
  }

  decide(event: RehearsedEvent, now: number): RehearsedEffect[] {
    invariant(event.type !== 'restarted', 'a test restarts by the store');
    const told = event.type === 'planned' ? event : forCoordinator(event);
    if (told === null) return [];
    const [state, effects] = step(this.coordinator, told, now);
    this.coordinator = state;
    const all: RehearsedEffect[] = [];
    const answers: RehearsedEvent[] = [];
    for (const effect of effects) {
      const answer = effect.type === 'planWanted' ? this.#planner(effect) : null;
      if (effect.type !== 'planWanted' || answer === null) all.push(effect);
      else answers.push({ type: 'planned', ask: effect.ask, answer });
    }
    for (const answered of answers) all.push(...this.decide(answered, now));
    const last = all.findLastIndex(({ type }) => type === 'publish');
    return all.filter(({ type }, index) => type !== 'publish' || index === last);
  }
}

/** Every so many events a copy of the state, written as JSON and read again, has to decide the same. */
const COPIED_EVERY = 16;

export class AllDecisions implements Decider {
  readonly #config: DecisionConfig;
  readonly #recording: Recording | null;
  #state: DecisionState;
  #events = 0;

  constructor(config: DecisionConfig, start: StartState, recording: Recording | null) {
    this.#config = copy(config);
    this.#recording = recording;
    this.#state = this.#begun(start);
  }

  get coordinator(): CoordinatorState {
    return wholeRun(this.#state).coordinator;
  }

  get deadline(): number | null {
    return nextDecision(this.#state);
  }

  begin(start: StartState): void {
    this.#state = this.#begun(start);
  }

  #begun(start: StartState): DecisionState {
    this.#recording?.began(this.#config, start, 0);
    const state = begin(this.#config, start);
    this.#recording?.decided(state, []);
    return state;
  }

  decide(event: RehearsedEvent, now: number): readonly DecisionEffect[] {
    invariant(event.type !== 'planned', 'plans are made by who decides');
    const before = this.#state;
    freeze(before);
    freeze(event);
    this.#recording?.event(event, now);
    const [state, effects] = decide(before, event, now);
    this.#state = state;
    if (this.#events++ % COPIED_EVERY === 0) {
      const [ofCopy, effectsOfCopy] = decide(copyOf(before), copy(event), now);
      const isSame = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);
      invariant(isSame(copyOf(ofCopy), copyOf(state)), `${event.type} makes the same of a copy`);
      invariant(isSame(effectsOfCopy, effects), `${event.type} asks for the same with a copy`);
      this.#state = copyOf(state);
    }
    this.#recording?.decided(state, effects);
    return effects;
  }
}

const copy = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T; // plain data is as it was

/** But for the configuration, which is a copy from the beginning on. */
function copyOf({ groups, apart: { run, ...apart } }: DecisionState): DecisionState {
  const copied = groups.map(
    ({ coordinator: { config, ...coordinator }, replanner: { config: planning, ...replanner } }) => {
      const own = copy({ coordinator, replanner });
      return { coordinator: { ...own.coordinator, config }, replanner: { ...own.replanner, config: planning } };
    },
  );
  return { groups: copied, apart: { ...copy(apart), run } };
}

/** What is frozen is so to its leaves: only what is new is looked at. */
function freeze(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return;
  Object.freeze(value);
  for (const part of Object.values(value)) freeze(part);
}
