/** Islands that train by turns in one process, as a run file's `train.islands` words it: real steps and real meetings. */
import { arrayOf, at, type Range } from '../../../swarm/base.ts';
import { type MeetingSettings, meet, type SharedPlanes } from '../../../swarm/islands/outer.ts';
import type { Trainer } from '../../../swarm/reference/trainer.ts';
import type { Window } from '../../../swarm/reference/transformer.ts';
import { type FlatState, flatState, tensorRanges } from './flatState.ts';

interface Island {
  readonly state: FlatState;
  readonly leftOver: Float32Array | null;
}

/** The windows of a step, by its number. */
export type Batch = (number: number) => readonly Window[];

export class IslandTraining {
  readonly planes: SharedPlanes;
  readonly #trainer: Trainer;
  readonly #settings: MeetingSettings;
  readonly #tensors: readonly Range[];
  readonly #batch: Batch;
  readonly #islands: Island[];

  constructor(trainer: Trainer, settings: MeetingSettings, count: number, first: Float32Array, batch: Batch) {
    this.#trainer = trainer;
    this.#settings = settings;
    this.#tensors = [...tensorRanges(trainer.model).values()];
    this.#batch = batch;
    this.planes = {
      shared: first.slice(),
      velocity: new Float32Array(first.length),
      published: settings.publish === 'int8' ? first.slice() : null,
    };
    this.#islands = arrayOf(count, () => ({
      state: flatState(trainer.model, first),
      leftOver: settings.exchange === 'f32' ? null : new Float32Array(first.length),
    }));
  }

  /** Each island does the steps of its list, one after the other; then they meet. Answers with the steps' losses. */
  round(lists: readonly (readonly number[])[]): number[] {
    const losses: number[] = [];
    for (const [index, { state }] of this.#islands.entries()) {
      state.values.set(this.planes.published ?? this.planes.shared);
      for (const number of at(lists, index)) losses.push(this.#trainer.step(state, this.#batch(number), number).loss);
    }
    const planes = this.#islands.map(({ state, leftOver }) => ({ own: state.values, leftOver }));
    const steps = lists.map(({ length }) => length);
    Array.from(meet(this.#settings, this.#tensors, this.planes, planes, steps));
    return losses;
  }
}
