/**
 * Eager (AxoNN, Singh and Bhatele 2022): no order is fixed. A free peer takes what has arrived, backwards first, and
 * starts no forward past the bound of micro-batches in flight. With equal costs it takes as long as the order whose
 * bound it has; where links or peers waver it goes on with what is there. A peer of several stages has a bound in each:
 * then whatever is in flight in the last stage can go on, hence in the one before it, and nobody waits in a circle. See
 * SPEC.md, SC15.
 */
import { at, got, invariant, type PeerId } from '../base.ts';
import type { MicroAction } from './action.ts';
import type { WorkGraph } from './graph.ts';
import { microBatchQueue } from './messageDriven.ts';
import { NO_WORK, type Policy } from './policy.ts';
import { freedBy } from './slots.ts';

/** `bounds`: micro-batches that a peer may have in flight in each of its stages. */
export const eager =
  (bounds: ReadonlyMap<PeerId, ReadonlyMap<number, number>>): Policy =>
  ({ graph }) => {
    const peers = graph.peers.map((peer, place) => {
      const list = graph.actions.slice(at(graph.listFrom, place), at(graph.listFrom, place + 1));
      const stages = [...got(bounds, peer)].map(([stage, bound]) => ({
        ...{ stage, bound, inFlight: 0, forwards: microBatchQueue(graph) },
      }));
      const byStage = new Map(stages.map((one) => [one.stage, one]));
      return { stages, byStage, freed: freedBy(list), backwards: microBatchQueue(graph) };
    });
    const peerOf = (work: number) => at(peers, at(graph.peerOf, work));
    return {
      ready(work) {
        const { op, stage } = microAction(graph, work);
        const { backwards, byStage } = peerOf(work);
        if (op === 'B') backwards.add(work);
        else got(byStage, stage).forwards.add(work);
      },
      ended(work) {
        const action = microAction(graph, work);
        if (action.op !== 'B') return;
        const { freed, byStage } = peerOf(work);
        for (const stage of freed(action)) got(byStage, stage).inFlight--;
      },
      next(index) {
        const { backwards, stages } = at(peers, index);
        const backward = backwards.first();
        if (backward !== undefined) {
          backwards.remove(backward);
          return backward;
        }
        let chosen: { readonly of: (typeof stages)[number]; readonly forward: number } | null = null;
        for (const of of stages) {
          const forward = of.inFlight < of.bound ? of.forwards.first() : undefined;
          if (forward === undefined) continue;
          const isLower = chosen === null || microBatchOf(graph, forward) < microBatchOf(graph, chosen.forward);
          if (isLower) chosen = { of, forward };
        }
        if (chosen === null) return NO_WORK;
        chosen.of.forwards.remove(chosen.forward);
        chosen.of.inFlight++;
        return chosen.forward;
      },
    };
  };

const microBatchOf = (graph: WorkGraph, work: number): number => microAction(graph, work).microBatch;

function microAction({ actions }: WorkGraph, work: number): MicroAction {
  const action = at(actions, work);
  invariant('microBatch' in action, 'orders that follow messages are of work on micro-batches');
  return action;
}
