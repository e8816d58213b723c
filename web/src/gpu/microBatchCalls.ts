/**
 * What a stage does for a micro-batch, as kernel calls in order: the rows of its program, forward and from the end. The
 * loss goes by runs of rows, each forward and backward before the next, so that a run's logits are all there ever are.
 */
import { scaleRows } from '../../../shaders/arrays/scaleRows.ts';
import { preferencePairs } from '../../../shaders/loss/preferencePairs.ts';
import { at } from '../../../swarm/base.ts';
import { ADAPTER, PAIRS } from '../../../swarm/memory/adapterMemory.ts';
import { firstKeysName } from '../../../swarm/memory/memory.ts';
import { LOW_GRADIENT, lowWidth, type Program, type Step } from '../../../swarm/model/program.ts';
import { wholeWords } from './buffers.ts';
import { call, type KernelCall } from './kernelCall.ts';
import { backward, forward } from './operations.ts';
import type { Places } from './places.ts';

export interface MicroBatchCalls {
  readonly forward: readonly KernelCall[];
  /** The forward without what only a backward needs. */
  readonly evaluation: readonly KernelCall[];
  /** Computes the layer again whose backward comes first of those that are recomputed; the backward relies on it. */
  readonly recompute: readonly KernelCall[];
  readonly backward: readonly KernelCall[];
}

/** The forward of a stage's body, a list for each block, in order. */
export function bodyCalls(program: Program, places: Places): KernelCall[][] {
  const there = (steps: readonly Step[], at: Places): KernelCall[] => steps.flatMap((step) => forward(step, at, false));
  const runs = layerRuns(program, places);
  return program.backward
    .toReversed()
    .map(({ rows, end, isAgain }) => [
      ...there(rows.toReversed(), places),
      ...(isAgain ? runs : [places]).flatMap((run) => there(end, run)),
    ]);
}

/** `aheadPlaces`: of the layer that is computed again ahead of its backward. `body`: its forward. */
export function microBatchCalls(
  program: Program,
  places: Places,
  aheadPlaces: Places = places,
  body: readonly (readonly KernelCall[])[] = bodyCalls(program, places),
): MicroBatchCalls {
  const { head, loss, backward: blocks } = program;
  const there = (steps: readonly Step[], at: Places, evaluation = false): KernelCall[] =>
    steps.flatMap((step) => forward(step, at, evaluation));
  const back = (steps: readonly Step[], at: Places): KernelCall[] => steps.flatMap((step) => backward(step, at));
  const lossesRuns = lossRuns(program, places);
  const evaluatedRuns = lossesRuns.flatMap((run) => there(loss, run, true));
  const pairs = pairCalls(program, places);
  // An adapter's gradient in the head is made of logits' gradients that count in their pairs already: pairs come first.
  const isFirst = pairs !== null && lowWidth(at(loss, 0).operation) > 0;
  const losses = [
    ...(isFirst ? [...evaluatedRuns, ...pairs.losses] : []),
    ...lossesRuns.flatMap((run) => [
      ...there(loss, run),
      ...(isFirst ? pairs.ofLogits(run) : []),
      ...back(loss.toReversed(), run),
    ]),
    ...(pairs?.losses ?? []),
    ...(isFirst ? [] : (pairs?.ofProduct ?? [])),
  ];
  const runs = layerRuns(program, places);
  const bodyForward = body.flat();
  const endBackward = ({ end, isAgain }: Program['backward'][number]): KernelCall[] =>
    (end.length === 0 ? [] : runs).flatMap((run) => [
      ...(isAgain ? there(end.slice(0, -1), run) : []),
      ...back(end.toReversed(), run),
    ]);
  const ahead = blocks.find(({ before }) => before.length > 0);
  const before = (block: Program['backward'][number]) => (block === ahead ? [] : there(block.before, places));
  return {
    forward: [...bodyForward, ...there(head, places), ...losses, ...back(head.toReversed(), places)],
    evaluation: [...bodyForward, ...there(head, places, true), ...evaluatedRuns, ...(pairs?.losses ?? [])],
    recompute: there(ahead?.before ?? [], aheadPlaces),
    backward: blocks.flatMap((block) => [
      ...before(block),
      ...endBackward(block),
      ...back(block.rows, block === ahead ? aheadPlaces : places),
    ]),
  };
}

/** What makes pairs' losses of those of all rows, and gradients of rows count in their pairs; null: there are no pairs. */
function pairCalls({ loss }: Program, { samples: B, sequence: T, beta, width, buffer, rows, vocabulary }: Places) {
  const [product] = loss;
  if (beta === undefined || !product?.dx || !product.y) return null;
  const [label, logits] = [`${product.scope} pairs`, product.y];
  const buffers = { first_BT: buffer(firstKeysName(null)), loss_BT: buffer('loss'), weight_BT: buffer(PAIRS.weights) };
  const scaled = (of: Pick<Places, 'buffer' | 'rows'>, name: string, C: number): KernelCall[] => [
    call(scaleRows, { weight_N: of.buffer(PAIRS.weights), x_NC: of.buffer(name) }, { N: of.rows, C }, label),
  ];
  return {
    losses: [call(preferencePairs, buffers, { B, T, beta }, label)],
    ofLogits: (run: Places): KernelCall[] => scaled(run, logits, vocabulary),
    /** What a row of the logits' gradient counts, so does what the product makes of it. */
    ofProduct: scaled({ buffer, rows }, product.dx, width),
  };
}

/** Of the rows of layers' ends; none where no layer has one. */
const layerRuns = (program: Program, places: Places): Places[] =>
  program.backward.some(({ end }) => end.length > 0) ? runsOf(program, places, program.runRows) : [];

/** Of the loss's rows, each with what nobody uses meanwhile. */
function lossRuns(program: Program, places: Places): Places[] {
  const unused = unusedByLoss(program, places);
  return runsOf(program, places, program.lossRows).map((run) => ({ ...run, unused }));
}

/** Places for each run of rows: what lives only inside a run lies at the start of its buffer, of all else a run has its part. */
function runsOf(program: Program, places: Places, most: number): Places[] {
  const { kept, again, scratch, logits, inRuns } = program;
  const runs: Places[] = [];
  for (let from = 0; from < places.rows; from += most) {
    const rows = Math.min(most, places.rows - from);
    const buffer: Places['buffer'] = (name) => {
      const { buffer: whole } = places.buffer(name);
      // The B's of a row go with its weights, not with its rows.
      if (name === ADAPTER.b || name === ADAPTER.gradient) return { buffer: whole };
      const own = logits.get(name) ?? inRuns.get(name);
      const width = own ?? kept.get(name) ?? again.get(name) ?? scratch.get(name);
      // Targets and losses are one word a row.
      const rowBytes = width === undefined ? 4 : width * places.elementBytes;
      return { buffer: whole, offset: own !== undefined ? 0 : from * rowBytes, size: wholeWords(rows * rowBytes) };
    };
    runs.push({ ...places, rows, buffer });
  }
  return runs;
}

/** The largest of what is written in backwards alone, and not in that of the head. */
function unusedByLoss(
  { scratch, inRuns, runRows, places: shared, head, loss }: Program,
  { rows, elementBytes, buffer }: Places,
): Places['unused'] {
  const placeOf = (name: string): string => shared.get(name) ?? name;
  const names = [...head, ...loss].flatMap(({ x, y, dx, dy }) => [x, y, dx, dy, LOW_GRADIENT]);
  const used = new Set(names.map((name) => name && placeOf(name)));
  const elements = [
    ...[...scratch].map(([name, width]) => [name, rows * width] as const),
    ...[...inRuns].map(([name, width]) => [name, Math.min(rows, runRows) * width] as const),
  ];
  const [largest] = elements.filter(([name]) => !used.has(placeOf(name))).toSorted(([, a], [, b]) => b - a);
  return largest && { place: buffer(largest[0]), bytes: largest[1] * elementBytes };
}
