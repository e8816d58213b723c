/**
 * What must come first: the one place that knows. The checker, the lowering, the simulator and the executor all ask
 * `before`, so a schedule that one of them accepts means the same to the others. See SPEC.md, SC4 to SC8.
 *
 * Where a schedule leaves something out (transfers before lowering, recompute where nothing is recomputed), the need
 * falls through to what stands behind it: a forward without a receive needs the neighbour's forward itself.
 */
import { assertNever, invariant, type PeerId } from '../base.ts';
import type { BlockName, Model } from '../model.ts';
import { homeStage, type Plan } from '../plan.ts';
import { MICRO_OPS, type MicroAction, type MicroOp, type Schedule, type Work } from './action.ts';

/** A plan and a schedule, indexed for `before`. */
export interface Wiring {
  readonly plan: Plan;
  readonly tied: boolean;
  readonly lastStage: number;
  readonly owner: (stage: number, microBatch: number) => PeerId;
  /** The work's number, counted through the schedule list by list; -1 where it is not in there. */
  readonly find: (work: Work) => number;
  /** As `find`, whoever does it: a micro-batch has one owner in a stage. */
  readonly number: (action: MicroAction) => number;
  /** Is this work anywhere in the schedule? */
  readonly has: (action: MicroAction) => boolean;
  readonly reduces: readonly Work[];
}

export function wiring(model: Pick<Model, 'tied'>, plan: Plan, schedule: Schedule): Wiring {
  const rank = rankOf(plan);
  const owners = plan.stages.map(({ members }) => {
    const byRank: PeerId[] = [];
    for (const { peer, microBatches } of members) for (const id of microBatches) byRank[rank(id)] = peer;
    return byRank;
  });
  // Numbers in one table: looking work up by its text would take longer than simulating it.
  const [stages, microBatches] = [plan.stages.length, plan.microBatches.length];
  const numbers = new Int32Array(MICRO_OPS.length * stages * microBatches).fill(-1);
  const place = ({ op, stage, microBatch }: MicroAction): number =>
    (OP_INDEX[op] * stages + stage) * microBatches + rank(microBatch);
  const number = (action: MicroAction): number => numbers[place(action)] ?? -1;
  const stageNumbers = new Map<string, number>();
  const reduces: Work[] = [];
  let count = 0;
  for (const [peer, actions] of schedule) {
    for (const action of actions) {
      if ('microBatch' in action) numbers[place(action)] = count;
      else stageNumbers.set(`${action.op} ${action.stage} ${peer}`, count);
      if (action.op === 'REDUCE') reduces.push({ peer, action });
      count++;
    }
  }
  return {
    plan,
    tied: model.tied,
    lastStage: stages - 1,
    owner: (stage, microBatch) => {
      const peer = owners[stage]?.[rank(microBatch)];
      invariant(peer !== undefined, `micro-batch ${microBatch} has no owner in stage ${stage}`);
      return peer;
    },
    find: ({ peer, action }) =>
      'microBatch' in action ? number(action) : (stageNumbers.get(`${action.op} ${action.stage} ${peer}`) ?? -1),
    number,
    has: (action) => number(action) !== -1,
    reduces,
  };
}

const OP_INDEX: Readonly<Record<MicroOp, number>> = { F: 0, R: 1, B: 2, SEND_F: 3, RECV_F: 4, SEND_B: 5, RECV_B: 6 };

/** A micro-batch's place in the plan. Mostly that is its id. */
function rankOf({ microBatches }: Plan): (id: number) => number {
  if (microBatches.every(({ id }, index) => id === index)) return (id) => id;
  const ranks = new Map(microBatches.map(({ id }, index) => [id, index]));
  return (id) => ranks.get(id) ?? 0;
}

/** The work that must have ended before this one may start, whoever does it. */
export function before({ peer, action }: Work, wiring: Wiring): Work[] {
  const { stage } = action;
  switch (action.op) {
    case 'F':
      return stage === 0 ? [] : [arrival('F', stage, action.microBatch, wiring)];
    case 'R':
      return [at('F', stage, action.microBatch, wiring)];
    case 'B': {
      const recompute = at('R', stage, action.microBatch, wiring);
      return [
        at('F', stage, action.microBatch, wiring),
        ...(wiring.has(recompute.action) ? [recompute] : []),
        // The last stage's loss is its own: no gradient comes from outside.
        ...(stage === wiring.lastStage ? [] : [arrival('B', stage, action.microBatch, wiring)]),
      ];
    }
    case 'SEND_F':
      return [at('F', stage, action.microBatch, wiring)];
    case 'SEND_B':
      return [at('B', stage, action.microBatch, wiring)];
    case 'RECV_F':
      return [at('SEND_F', stage - 1, action.microBatch, wiring)];
    case 'RECV_B':
      return [at('SEND_B', stage + 1, action.microBatch, wiring)];
    case 'REDUCE':
      return (wiring.plan.stages[stage]?.members ?? [])
        .filter((member) => member.peer === peer)
        .flatMap(({ microBatches }) => microBatches.map((id) => at('B', stage, id, wiring)));
    case 'UPDATE':
      // The commit stands between: it needs every shard's report, and so every holder's gradients.
      return [...wiring.reduces];
    case 'GATHER':
      return wiring.plan.state
        .filter(({ block }) => usesBlock(block, stage, wiring))
        .flatMap(({ block, shards }) => {
          const home = homeStage(wiring.plan, block);
          return shards.map((shard): Work => ({ peer: shard.peer, action: { op: 'UPDATE', stage: home } }));
        });
    default:
      return assertNever(action);
  }
}

/** Where a send goes: the owner of the micro-batch in the next stage, or for a gradient in the one before. */
export function receiver(op: 'SEND_F' | 'SEND_B', stage: number, microBatch: number, wiring: Wiring): PeerId {
  return wiring.owner(op === 'SEND_F' ? stage + 1 : stage - 1, microBatch);
}

const at = (
  op: MicroOp,
  stage: number,
  microBatch: number,
  wiring: Wiring,
): Work & { readonly action: MicroAction } => ({
  peer: wiring.owner(stage, microBatch),
  action: { op, stage, microBatch },
});

/** What brings a stage its input: its receive, or where the schedule has none the neighbour's work itself. */
function arrival(op: 'F' | 'B', stage: number, microBatch: number, wiring: Wiring): Work {
  const receive = at(`RECV_${op}`, stage, microBatch, wiring);
  return wiring.has(receive.action) ? receive : at(op, op === 'F' ? stage - 1 : stage + 1, microBatch, wiring);
}

const usesBlock = (block: BlockName, stage: number, { plan, tied, lastStage }: Wiring): boolean =>
  homeStage(plan, block) === stage || (tied && block === 'embedding' && stage === lastStage);
