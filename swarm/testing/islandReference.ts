/** A run with islands in one process: steps in float64, meetings by their own arithmetic. Who does which step is told. */
import { at, got, invariant, type Range } from '../base.ts';
import { meet, type SharedPlanes } from '../islands/outer.ts';
import { type ReferenceTrainer, referenceTrainer, type Window } from '../reference/reference.ts';
import { modelOf, type RunFile } from '../run/runFile.ts';

interface Island {
  readonly trainer: ReferenceTrainer;
  readonly leftOver: Float32Array | null;
  done: number;
}

export class IslandReference {
  readonly #run: RunFile;
  readonly #text: Uint8Array;
  readonly #names: readonly string[];
  readonly #ranges: Range[] = [];
  readonly #planes: SharedPlanes;
  readonly #islands: readonly Island[];

  constructor(run: RunFile, initial: ReadonlyMap<string, Float32Array>, text: Uint8Array, count: number) {
    this.#run = run;
    this.#text = text;
    this.#names = [...initial.keys()];
    for (const tensor of this.#names) {
      const from = this.#ranges.at(-1)?.[1] ?? 0;
      this.#ranges.push([from, from + got(initial, tensor).length]);
    }
    const { exchange, publish } = this.#settings;
    const shared = this.#joined(initial);
    this.#planes = {
      shared,
      velocity: new Float32Array(shared.length),
      published: publish === 'int8' ? shared.slice() : null,
    };
    const model = modelOf(run);
    this.#islands = Array.from({ length: count }, () => ({
      trainer: referenceTrainer(
        model,
        new Map([...initial].map(([tensor, values]) => [tensor, Float64Array.from(values)])),
        run.train,
      ),
      leftOver: exchange === 'f32' ? null : new Float32Array(shared.length),
      done: 0,
    }));
  }

  get #settings() {
    const { islands } = this.#run.train;
    invariant(islands, 'a run with islands');
    return islands;
  }

  /** The next step of this island. */
  step(island: number, number: number) {
    const own = at(this.#islands, island);
    own.done++;
    return own.trainer.step(this.#windows(number), number);
  }

  /** The round is over. */
  meet(): void {
    const planes = this.#islands.map(({ trainer, leftOver }) => ({ own: this.#joined(trainer.tensors), leftOver }));
    const steps = this.#islands.map(({ done }) => done);
    Array.from(meet(this.#settings, this.#ranges, this.#planes, planes, steps));
    for (const island of this.#islands) {
      island.done = 0;
      for (const [index, tensor] of this.#names.entries()) {
        const published = this.#planes.published ?? this.#planes.shared;
        got(island.trainer.tensors, tensor).set(published.subarray(...at(this.#ranges, index)));
      }
    }
  }

  #windows(number: number): Window[] {
    const { globalBatchSize: B, sequenceLength: T } = this.#run.train;
    const count = Math.floor((this.#text.length - 1) / T);
    return Array.from({ length: B }, (_, sample) => {
      const from = ((number * B + sample) % count) * T;
      return this.#text.subarray(from, from + T + 1);
    });
  }

  #joined(tensors: ReadonlyMap<string, ArrayLike<number>>): Float32Array {
    return Float32Array.from(this.#names.flatMap((tensor) => Array.from(got(tensors, tensor))));
  }
}
