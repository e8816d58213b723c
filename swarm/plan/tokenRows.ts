/**
 * Gradients of the token table as rows (after Bagpipe, Agarwal et al., SOSP '23: a step touches few rows, and its tokens are
 * known beforehand). Whoever embeds sends each keeper only the rows of its own tokens, ascending, one after the other, and no
 * ids: the keeper reads the same tokens, and every other row of that gradient is 0. So the sum that a keeper comes to has the
 * same bits. The tensor has as many elements as the member's tokens can touch, whatever they are, so that plans, frames and
 * predictions know its size; behind the last row it is 0.
 *
 * A table that a head of the same stage reads has a gradient everywhere, and goes whole. Rules WI38 on in SPEC.md.
 */
import { at, countIn, overlap, type PeerId, type Range } from '../base.ts';
import { pieces } from '../model/layout.ts';
import type { BlockUse, Model } from '../model/model.ts';
import type { CodedState } from '../wire.ts';
import { type Plan, peers } from './plan.ts';

/** A part of a gradient sum as it travels. */
export interface SumPart {
  /** Elements of the block; of rows their first one, and as many as the tensor has. */
  readonly range: Range;
  /** Of rows: the part of the table that all of them lie in, of which this tensor has a piece; null: it has the range itself. */
  readonly table: Range | null;
}

interface Sender {
  readonly stage: number;
  readonly peer: PeerId;
}

type Sent = Pick<Plan, 'stages' | 'rows' | 'stateWire'>;

/** How the state of this run's plans travels: as int8 codes where the run asks for them, else rows where these are fewer than the table has. */
export function withStateSent(
  model: Pick<Model, 'vocabulary'>,
  plan: Plan,
  { stateWire, sequence }: { readonly stateWire?: CodedState | undefined; readonly sequence?: number | undefined },
): Plan {
  if (stateWire !== undefined) return { ...plan, stateWire };
  if (sequence === undefined || peers(plan).length === 1) return plan;
  const isFewer = plan.stages[0]?.members.some(({ samples }) => samples * sequence < model.vocabulary) ?? false;
  return isFewer ? { ...plan, rows: sequence } : plan;
}

/** A member's gradient sums of a block within a shard, in parts that travel: both ends cut alike. */
export function sumParts(model: Model, plan: Sent, sender: Sender, use: BlockUse, shard: Range): SumPart[] {
  const dense = (range: Range): SumPart[] => pieces(range).map((part) => ({ range: part, table: null }));
  return use.ranges.flatMap((range): SumPart[] => {
    const part = overlap(range, shard);
    if (!part) return [];
    const rows = rowsIn(model, plan, sender, use, part);
    if (!rows) return dense(part);
    const { table, elements } = rows;
    const [from, to] = table;
    const touched = pieces([from, from + elements]).map((piece): SumPart => ({ range: piece, table }));
    return [...touched, ...(to < part[1] ? dense([to, part[1]]) : [])];
  });
}

/** Null: its sums go whole. */
function rowsIn(model: Model, { stages, rows, stateWire }: Sent, { stage, peer }: Sender, use: BlockUse, part: Range) {
  if (rows === undefined || stateWire || stage > 0 || use.block !== 'embedding') return null;
  const isHeadsToo = model.tied && stages.length === 1;
  const member = at(stages, stage).members.find((one) => one.peer === peer);
  const { elements: whole = 0 } = model.blocks.find(({ name }) => name === use.block)?.tensors[0] ?? {};
  const table = overlap(part, [0, whole]);
  if (isHeadsToo || !member || !table || whole !== model.vocabulary * model.width) return null;
  const elements = member.samples * rows * model.width;
  return elements < countIn(table) ? { table, elements } : null;
}

/** Which elements of the block a tensor of rows has, in its order; `ids`: the member's tokens, each once, ascending. */
export function runsOfRows(
  { range, table }: { readonly range: Range; readonly table: Range },
  width: number,
  ids: Iterable<number>,
): Range[] {
  const runs: Range[] = [];
  let [place] = table; // of the row, where all of them lie one after the other
  for (const id of ids) {
    const row = overlap([id * width, (id + 1) * width], table);
    if (!row) continue;
    const part = overlap([place, place + countIn(row)], range);
    const shift = row[0] - place;
    place += countIn(row);
    if (!part) continue;
    const [from, to] = [part[0] + shift, part[1] + shift];
    const last = runs.at(-1);
    if (last?.[1] === from) runs[runs.length - 1] = [last[0], to];
    else runs.push([from, to]);
  }
  return runs;
}

/** The tensor's values where they belong. */
export function spreadRows(runs: readonly Range[], words: Float32Array): { range: Range; values: Float32Array }[] {
  let done = 0;
  return runs.map((range) => {
    done += countIn(range);
    return { range, values: words.subarray(done - countIn(range), done) };
  });
}

/** Each once, ascending. */
export const distinctIds = (all: Iterable<number>): number[] => [...new Set(all)].sort((a, b) => a - b);
