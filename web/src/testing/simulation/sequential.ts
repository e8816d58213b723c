/** The oracle: the same training as a plain loop over steps and samples, on one computer, in no plan. */
import { got, totalOf } from '../../../../swarm/base.ts';
import type { BlockName, Model } from '../../../../swarm/model/model.ts';
import { learningRate } from '../../../../swarm/run/learningRate.ts';
import type { Train } from '../../../../swarm/run/runFile.ts';
import {
  added,
  embedded,
  embeddedBack,
  gradientAt,
  gradientOfUse,
  headBack,
  headRows,
  initialValues,
  layer,
  layerBack,
  lossOf,
  type State,
  type Sums,
  squared,
  updated,
  type Values,
} from './integers.ts';

/** After so many steps, as many as its index. */
type Trajectory = readonly ReadonlyMap<BlockName, State>[];

interface Reference {
  readonly states: Trajectory;
  /** Of each step. */
  readonly losses: readonly number[];
  readonly norms: readonly number[];
  readonly scalars: readonly Parameters<typeof updated>[2][];
}

type Blocks = ReadonlyMap<BlockName, State>;

const copied = (state: Blocks): Map<BlockName, State> =>
  new Map([...state].map(([name, { value, m, v }]) => [name, { value: value.slice(), m: m.slice(), v: v.slice() }]));

/** Window w of the text is tokens [w·T, w·T+T], its last one a target alone; past the last window they begin again. */
export function sequentialRun(model: Model, train: Train, text: Uint8Array): Reference {
  const { steps, globalBatchSize, gradientClipNorm, sequenceLength: length } = train;
  const windows = Math.floor((text.length - 1) / length);
  const zeros = (elements: number): Values => new Float32Array(elements);
  const states: Map<BlockName, State>[] = [
    new Map(
      model.blocks.map(({ name, elements }) => [
        name,
        { value: initialValues(model, name), m: zeros(elements), v: zeros(elements) },
      ]),
    ),
  ];
  const losses: number[] = [];
  const norms: number[] = [];
  const all: Parameters<typeof updated>[2][] = [];
  for (let step = 0; step < steps; step++) {
    const state = copied(got(new Map(states.entries()), step));
    const sums = new Map<string, Sums>();
    let loss = 0;
    for (let sample = 0; sample < globalBatchSize; sample++) {
      const start = ((step * globalBatchSize + sample) % windows) * length;
      const tokens = Uint32Array.from(text.subarray(start, start + length + 1));
      loss += trainOn(model, state, sums, tokens);
    }
    losses.push(loss / (globalBatchSize * length));
    const gradients = new Map(model.blocks.map(({ name }) => [name, gradientOf(model, state, sums, name)]));
    let squares = 0;
    for (const gradient of gradients.values()) for (const one of gradient) squares += squared(one);
    const norm = Math.sqrt(squares);
    norms.push(norm);
    const clipScale = gradientClipNorm === null ? 1 : Math.min(1, gradientClipNorm / (norm + 1e-6));
    const scalars = { learningRate: learningRate(train, step), clipScale, time: step + 1 };
    all.push(scalars);
    for (const [name, of] of state) updated(of, got(gradients, name), scalars);
    states.push(state);
  }
  return { states, losses, norms, scalars: all };
}

/** The sum of the sample's losses. */
function trainOn(model: Model, state: Blocks, sums: Map<string, Sums>, tokens: Uint32Array): number {
  const sumsOf = (name: string): Sums => {
    const known = sums.get(name) ?? { s: 0, u: 0 };
    sums.set(name, known);
    return known;
  };
  const [ids, targets] = [tokens.subarray(0, -1), tokens.subarray(1)];
  const table = got(state, 'embedding').value;
  const inputs: Values[] = [];
  let x = embedded(model, table, ids, ids.length);
  for (let index = 0; index < model.layers; index++) {
    inputs.push(x);
    x = layer(got(state, `layer.${index}`).value, x);
  }
  const z_N = headRows(model, table, got(state, 'head').value, x, targets);
  let d = headBack(model, z_N, targets, sumsOf('table'), sumsOf('head'));
  for (let index = model.layers - 1; index >= 0; index--) {
    const name = `layer.${index}` as const;
    d = layerBack(got(state, name).value, inputs[index] ?? x, d, sumsOf(name));
  }
  embeddedBack(ids, d, model.width, sumsOf('embedding'));
  return totalOf(z_N, (z) => lossOf(z));
}

/** The head reads the token table too: its part of the gradient is of those elements alone. */
function gradientOf(model: Model, state: Blocks, sums: Map<string, Sums>, name: BlockName): number[] {
  const { value } = got(state, name);
  const own = got(sums, name);
  const tied = name === 'embedding' ? sums.get('table') : undefined;
  const tableEnd = model.vocabulary * model.width;
  return Array.from(value, (one, index) => {
    const first = gradientOfUse(model, name, own, index, one);
    return tied && index < tableEnd ? added(first, gradientAt(tied, index, one)) : first;
  });
}
