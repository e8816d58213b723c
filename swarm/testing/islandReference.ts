/** A run with islands in one process: steps in float64, meetings by their own arithmetic. Who does which step is told. */
import { arrayOf, at, got, invariant, type Range } from '../base.ts';
import { meet, type SharedPlanes } from '../islands/outer.ts';
import type { Matrices } from '../reference/products.ts';
import { type ReferenceTrainer, referenceTrainer } from '../reference/trainer.ts';
import type { Window } from '../reference/transformer.ts';
import { modelOf, type RunFile } from '../run/runFile.ts';

interface Island {
  readonly trainer: ReferenceTrainer;
  readonly leftOver: Float32Array | null;
  done: number;
  /** What it ended the last round with, of whose meeting it has not taken in what came of it. */
  before: Matrices | null;
}

export class IslandReference {
  readonly #run: RunFile;
  readonly #text: Uint8Array;
  readonly #trainerOf: (tensors: Matrices) => ReferenceTrainer;
  readonly #names: readonly string[];
  readonly #ranges: Range[] = [];
  readonly #planes: SharedPlanes;
  /** By number: those that have ended are not in it. */
  readonly #islands = new Map<number, Island>();

  constructor(
    run: RunFile,
    initial: ReadonlyMap<string, Float32Array>,
    text: Uint8Array,
    count: number,
    trainerOf = (tensors: Matrices) => referenceTrainer(modelOf(run), tensors, run.train),
  ) {
    this.#run = run;
    this.#text = text;
    this.#trainerOf = trainerOf;
    this.#names = [...initial.keys()];
    for (const tensor of this.#names) {
      const from = this.#ranges.at(-1)?.[1] ?? 0;
      this.#ranges.push([from, from + got(initial, tensor).length]);
    }
    const { publish } = this.#settings;
    const shared = this.#joined(initial);
    this.#planes = {
      shared,
      velocity: new Float32Array(shared.length),
      published: publish === 'int8' ? shared.slice() : null,
    };
    for (let island = 0; island < count; island++) this.begin(island);
  }

  /** A new island, at what the last meeting came to. */
  begin(island: number): void {
    const published = this.#planes.published ?? this.#planes.shared;
    const values = this.#names.map((tensor, index): [string, Float64Array] => {
      const [from, to] = at(this.#ranges, index);
      return [tensor, Float64Array.from(published.subarray(from, to))];
    });
    this.#islands.set(island, {
      trainer: this.#trainerOf(new Map(values)),
      leftOver: this.#settings.exchange === 'f32' ? null : new Float32Array(published.length),
      done: 0,
      before: null,
    });
  }

  has(island: number): boolean {
    return this.#islands.has(island);
  }

  get #settings() {
    const { islands } = this.#run.train;
    invariant(islands, 'a run with islands');
    return islands;
  }

  /** The next step of this island. */
  step(island: number, number: number) {
    const own = got(this.#islands, island);
    own.done++;
    return own.trainer.step(this.#windows(number), number);
  }

  /** The round is over, and all begin the next one with what comes of its meeting. */
  meet(): void {
    this.meetBeside();
    for (const island of this.#islands.keys()) this.takeIn(island);
  }

  /** The round is over, and its meeting is held while the next one goes on. */
  meetBeside(): void {
    invariant(
      [...this.#islands.values()].every(({ before }) => before === null),
      'what comes of a meeting is taken in before the next one',
    );
    const islands = [...this.#islands].toSorted(([a], [b]) => a - b).map(([, island]) => island);
    const planes = islands.map(({ trainer, leftOver }) => ({ own: this.#joined(trainer.tensors), leftOver }));
    const steps = islands.map(({ done }) => done);
    Array.from(meet(this.#settings, this.#ranges, this.#planes, planes, steps));
    for (const island of islands) {
      island.done = 0;
      island.before = new Map([...island.trainer.tensors].map(([tensor, values]) => [tensor, values.slice()]));
    }
  }

  /** What came of the last meeting moves this island as far as that was from what it had then; once. */
  takeIn(number: number): void {
    const island = got(this.#islands, number);
    const { before } = island;
    if (before === null) return;
    island.before = null;
    const published = this.#planes.published ?? this.#planes.shared;
    for (const [index, tensor] of this.#names.entries()) {
      const own = got(island.trainer.tensors, tensor);
      const [from] = at(this.#ranges, index);
      const old = got(before, tensor);
      for (let i = 0; i < own.length; i++) own[i] = (published[from + i] ?? 0) + ((own[i] ?? 0) - (old[i] ?? 0));
    }
  }

  #windows(number: number): Window[] {
    const { globalBatchSize: B, sequenceLength: T } = this.#run.train;
    const count = Math.floor((this.#text.length - 1) / T);
    return arrayOf(B, (sample) => {
      const from = ((number * B + sample) % count) * T;
      return this.#text.subarray(from, from + T + 1);
    });
  }

  #joined(tensors: ReadonlyMap<string, ArrayLike<number>>): Float32Array {
    return Float32Array.from(this.#names.flatMap((tensor) => Array.from(got(tensors, tensor))));
  }
}
