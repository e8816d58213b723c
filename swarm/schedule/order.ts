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
import { type Action, formatAction, type MicroOp, type Schedule, type Work } from './action.ts';

/** A plan and a schedule, indexed for `before`. */
export interface Wiring {
  readonly plan: Plan;
  readonly tied: boolean;
  readonly lastStage: number;
  readonly owner: (stage: number, microBatch: number) => PeerId;
  /** Is this work anywhere in the schedule? */
  readonly has: (action: Action) => boolean;
  readonly reduces: readonly Work[];
}

export function wiring(model: Pick<Model, 'tied'>, plan: Plan, schedule: Schedule): Wiring {
  const owners = plan.stages.map(
    ({ members }) =>
      new Map(members.flatMap(({ peer, microBatches }) => microBatches.map((id) => [id, peer] as const))),
  );
  const work = [...schedule].flatMap(([peer, actions]) => actions.map((action) => ({ peer, action })));
  const present = new Set(work.map(({ action }) => formatAction(action)));
  return {
    plan,
    tied: model.tied,
    lastStage: plan.stages.length - 1,
    owner: (stage, microBatch) => {
      const peer = owners[stage]?.get(microBatch);
      invariant(peer !== undefined, `micro-batch ${microBatch} has no owner in stage ${stage}`);
      return peer;
    },
    has: (action) => present.has(formatAction(action)),
    reduces: work.filter(({ action }) => action.op === 'REDUCE'),
  };
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

const at = (op: MicroOp, stage: number, microBatch: number, wiring: Wiring): Work => ({
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
