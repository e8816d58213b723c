/**
 * An order that follows messages, as one peer goes by it: the policy that the simulator asks, asked as things happen. Of all
 * work it is told what this peer has done and what has come here; that is all it may choose from. See SPEC.md, SC15 and SC26.
 */
import { at, got, type PeerId } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import type { ComputeAction, Schedule } from './action.ts';
import { eager } from './eager.ts';
import { workGraph } from './graph.ts';
import { build } from './lower.ts';
import { wiring } from './order.ts';
import { NO_WORK, type Policy } from './policy.ts';
import { slots } from './slots.ts';
import { varuna, varunaWork } from './varuna.ts';

/** Of a plan whose order is no list; null: each peer runs its list. */
export function policyOf(plan: Plan): Policy | null {
  if (plan.schedule === 'eager') return eager(slots(build(plan)));
  return plan.schedule === 'varuna' ? varuna(slots(build(plan)), plan.maxInFlight ?? null) : null;
}

/** What it chooses from, of the builder's forwards and backwards. */
export const policyWork = (plan: Plan, built: Schedule): Schedule =>
  plan.schedule === 'varuna' ? varunaWork(plan, built) : built;

export interface OwnOrder {
  /** What the free peer starts now; null: nothing that it may do can begin yet. */
  readonly next: () => ComputeAction | null;
  readonly ended: (action: ComputeAction) => void;
  /** The activation or the gradient that a stage needs is here. */
  readonly arrived: (op: 'F' | 'B', stage: number, microBatch: number) => void;
  /** The stage has begun its backward, at another peer. */
  readonly begun: (stage: number, microBatch: number) => void;
}

export function ownOrder(plan: Plan, policy: Policy, peer: PeerId): OwnOrder {
  const schedule = policyWork(plan, build(plan));
  const graph = workGraph(wiring({ tied: false }, plan, schedule), schedule); // of state there is nothing in it
  const place = got(graph.placeOf, peer);
  const [from, to] = [at(graph.listFrom, place), at(graph.listFrom, place + 1)];
  const open = graph.needs.slice();
  const chooser = policy({ graph, open, wake: () => {} });
  for (let work = from; work < to; work++) if (open[work] === 0) chooser.ready(work);
  const pass = (work: number): void => {
    for (let arrow = at(graph.dependantsFrom, work); arrow < at(graph.dependantsFrom, work + 1); arrow++) {
      const dependant = at(graph.dependants, arrow);
      if (dependant < from || dependant >= to) continue;
      open[dependant] = at(open, dependant) - 1;
      if (open[dependant] === 0) chooser.ready(dependant);
    }
  };
  const numberOf = ({ op, stage, microBatch }: ComputeAction): number => graph.wires.number(op, stage, microBatch);
  const known = new Set<number>();
  /** Whoever sends its gradient has begun it. */
  const begun = (work: number): void => {
    if (known.size < known.add(work).size) chooser.started?.(work);
  };
  return {
    next() {
      const work = chooser.next(place);
      if (work === NO_WORK) return null;
      begun(work);
      return at(graph.actions, work) as ComputeAction; // F, R and B alone
    },
    ended(action) {
      const work = numberOf(action);
      chooser.ended?.(work);
      pass(work);
    },
    arrived(op, stage, microBatch) {
      const work = numberOf({ op, stage: op === 'F' ? stage - 1 : stage + 1, microBatch });
      begun(work);
      pass(work);
    },
    begun: (stage, microBatch) => begun(numberOf({ op: 'B', stage, microBatch })),
  };
}
