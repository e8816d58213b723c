/**
 * What a stage does for a micro-batch, as kernel calls in order: the rows of its program, forward and from the end. The
 * loss goes by runs of rows, each forward and backward before the next, so that a run's logits are all there ever are.
 */
import type { BlockName } from '../../../swarm/model/model.ts';
import type { Program, Step } from '../../../swarm/model/program.ts';
import { wholeWords } from './buffers.ts';
import type { KernelCall } from './kernelCall.ts';
import { backward, forward, type Places } from './operations.ts';

export interface MicroBatchCalls {
  readonly forward: readonly KernelCall[];
  /** The forward without what only a backward needs. */
  readonly evaluation: readonly KernelCall[];
  /** Computes the layer again whose backward comes first of those that are recomputed; the backward relies on it. */
  readonly recompute: readonly KernelCall[];
  readonly backward: readonly KernelCall[];
}

/** The forward of a stage's body, a list for each block. */
export function bodyCalls({ body }: Program, places: Places): KernelCall[][] {
  const blocks = new Map<BlockName, KernelCall[]>();
  for (const step of body) blocks.set(step.scope, [...(blocks.get(step.scope) ?? []), ...forward(step, places, false)]);
  return [...blocks.values()];
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
  const runs = lossRuns(program, places);
  const losses = runs.flatMap((run) => [...there(loss, run), ...back(loss.toReversed(), run)]);
  const bodyForward = body.flat();
  const ahead = blocks.find(({ before }) => before.length > 0);
  const before = (block: Program['backward'][number]) => (block === ahead ? [] : there(block.before, places));
  return {
    forward: [...bodyForward, ...there(head, places), ...losses, ...back(head.toReversed(), places)],
    evaluation: [...bodyForward, ...there(head, places, true), ...runs.flatMap((run) => there(loss, run, true))],
    recompute: there(ahead?.before ?? [], aheadPlaces),
    backward: blocks.flatMap((block) => [
      ...before(block),
      ...back(block.rows, block === ahead ? aheadPlaces : places),
    ]),
  };
}

/** Places for each run of the loss's rows: all logits lie at the start of their buffer, of all else a run has its part. */
function lossRuns(program: Program, places: Places): Places[] {
  const { lossRows, kept, scratch, logits } = program;
  const runs: Places[] = [];
  const unused = unusedByLoss(program, places);
  for (let from = 0; from < places.rows; from += lossRows) {
    const rows = Math.min(lossRows, places.rows - from);
    const buffer: Places['buffer'] = (name) => {
      const { buffer: whole } = places.buffer(name);
      const width = logits.get(name) ?? kept.get(name) ?? scratch.get(name);
      // Targets and losses are one word a row.
      const rowBytes = width === undefined ? 4 : width * places.elementBytes;
      return { buffer: whole, offset: logits.has(name) ? 0 : from * rowBytes, size: wholeWords(rows * rowBytes) };
    };
    runs.push({ ...places, rows, buffer, unused });
  }
  return runs;
}

/** The widest of what is written in backwards alone, and not in that of the head. */
function unusedByLoss({ scratch, head, loss }: Program, { rows, elementBytes, buffer }: Places): Places['unused'] {
  const used = new Set([...head, ...loss].flatMap(({ x, y, dx, dy }) => [x, y, dx, dy]));
  const [widest] = [...scratch].filter(([name]) => !used.has(name)).toSorted(([, a], [, b]) => b - a);
  return widest && { place: buffer(widest[0]), bytes: rows * widest[1] * elementBytes };
}
