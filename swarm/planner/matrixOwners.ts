/**
 * Owners of the matrices that a run updates whole, as DP-KFAC places its factors (Zhang, Shi et al. 2022): the longest update
 * first, each to the owner who is least loaded with it. A plan says how much state each peer of a stage may have, by the
 * memory and the uplink that are left there; in one measure with that goes an update's cost, max(r, c)·min(r, c)² of each
 * matrix. Owner p, with a share w of the stage's state among n owners, is loaded with the larger of
 *
 *   n·(cost of its matrices) / (cost of all)      and      (elements of its matrices) / (w·elements of all)
 *
 * Norms and biases go with the matrix before them. Blocks without such matrices stay as they were cut.
 */
import { addToKey, type PeerId, pushToKey, type Range, total, totalOf } from '../base.ts';
import { matricesOf } from '../model/matrices.ts';
import type { Block, Model } from '../model/model.ts';
import { type BlockState, homeStage, type Plan } from '../plan/plan.ts';
import { sizeOf } from '../plan/shardCuts.ts';
import { muonProducts } from '../reference/muon.ts';

/** A tensor of matrices, and what is kept with it. */
interface Piece {
  readonly block: Block;
  readonly range: Range;
  readonly cost: number;
}

interface Owner {
  readonly peer: PeerId;
  readonly share: number;
  cost: number;
  elements: number;
}

/** The state with each matrix at one owner: among those whom the plan gives the state of its stage, in what shares it does. */
export function withMatrixOwners(model: Pick<Model, 'blocks'>, plan: Plan): BlockState[] {
  const blocks = new Map(model.blocks.map((block) => [block.name, block]));
  const stages = new Map<number, BlockState[]>();
  for (const state of plan.state) {
    if (!blocks.get(state.block)?.tensors.some(({ matrices }) => matrices !== undefined)) continue;
    const home = homeStage(plan, state.block);
    pushToKey(stages, home, state);
  }
  const owners = new Map<Piece, PeerId>();
  for (const own of stages.values())
    deal(own.flatMap(({ block }) => piecesOf(blocks.get(block))).toSorted(longestFirst), ownersOf(own), owners);
  return plan.state.map((state) => {
    const mine = [...owners].filter(([{ block }]) => block.name === state.block);
    return mine.length === 0 ? state : { block: state.block, shards: shardsOf(mine) };
  });
}

const longestFirst = (a: Piece, b: Piece): number => b.cost - a.cost;

function piecesOf(block: Block | undefined): Piece[] {
  if (!block) return [];
  const whole = block.tensors.filter(({ matrices }) => matrices !== undefined);
  return whole.map((tensor, index) => ({
    block,
    range: [index === 0 ? 0 : tensor.offset, whole[index + 1]?.offset ?? block.elements],
    cost: totalOf(matricesOf(tensor), (matrix) => muonProducts(matrix)),
  }));
}

/** Whom the plan gives this state. */
function ownersOf(state: readonly BlockState[]): Owner[] {
  const elements = new Map<PeerId, number>();
  for (const shard of state.flatMap(({ shards }) => shards)) addToKey(elements, shard.peer, sizeOf(shard));
  const all = total(elements.values());
  return [...elements].map(([peer, own]) => ({ peer, share: own / all, cost: 0, elements: 0 }));
}

function deal(pieces: readonly Piece[], owners: readonly Owner[], found: Map<Piece, PeerId>): void {
  const cost = totalOf(pieces, (piece) => piece.cost);
  const elements = totalOf(pieces, (piece) => sizeOf(piece));
  const loadWith = (owner: Owner, piece: Piece): number =>
    Math.max(
      (owners.length * (owner.cost + piece.cost)) / cost,
      (owner.elements + sizeOf(piece)) / (owner.share * elements),
    );
  for (const piece of pieces) {
    const owner = owners.reduce((best, next) => (loadWith(next, piece) < loadWith(best, piece) ? next : best));
    owner.cost += piece.cost;
    owner.elements += sizeOf(piece);
    found.set(piece, owner.peer);
  }
}

/** In order; neighbouring pieces of one owner are one shard. */
function shardsOf(pieces: readonly (readonly [Piece, PeerId])[]): BlockState['shards'] {
  const shards: BlockState['shards'][number][] = [];
  for (const [{ range }, peer] of pieces.toSorted(([a], [b]) => a.range[0] - b.range[0])) {
    const last = shards.at(-1);
    if (last?.peer === peer) shards[shards.length - 1] = { ...last, range: [last.range[0], range[1]] };
    else shards.push({ peer, range, replicas: [] });
  }
  return shards;
}
