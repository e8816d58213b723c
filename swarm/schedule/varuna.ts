/**
 * Varuna (Athlur et al. 2022): activations are not kept but computed again, so there is a recompute before each backward
 * of every stage but the last. A free peer takes a backward, else a recompute, else a forward. A recompute is issued when
 * the next stage starts its backward, so that it hides behind that and the gradient's way here, and at most one waits
 * for its gradient. Forwards keep to 1F1B's bound, but a peer whose next gradient is not here goes past it rather than
 * stand idle. See SPEC.md, SC16.
 */
import { at, got, type PeerId } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import type { MicroOp, Schedule } from './action.ts';
import { gpipe } from './gpipe.ts';
import type { WorkGraph } from './graph.ts';
import { microBatchQueue, type Queue } from './messageDriven.ts';
import { NOTHING, type Policy, type Progress } from './policy.ts';

/** What there is to do; the order is the policy's. */
export function varunaWork(plan: Plan): Schedule {
  const last = plan.stages.length - 1;
  return new Map(
    [...gpipe(plan)].map(([peer, list]) => [
      peer,
      list.flatMap((action) =>
        action.op === 'B' && action.stage < last ? [{ ...action, op: 'R' as const }, action] : [action],
      ),
    ]),
  );
}

interface PeerState {
  readonly bound: number;
  inFlight: number;
  /** The backward that has its activation recomputed and waits for its gradient, or NOTHING. */
  recomputed: number;
  readonly backwards: Queue;
  readonly recomputes: Queue;
  readonly forwards: Queue;
  /** Backwards of micro-batches in flight, whether their gradient is here or not. */
  readonly owed: Queue;
}

/** `most` in flight when a peer goes past its bound; null: unlimited. */
export const varuna =
  (bounds: ReadonlyMap<PeerId, number>, most: number | null): Policy =>
  (progress) => {
    const { graph } = progress;
    const peers = graph.peers.map((peer): PeerState => startingState(graph, got(bounds, peer)));
    const stateOf = (work: number): PeerState => at(peers, at(graph.peerOf, work));
    const opOf = (work: number) => at(graph.actions, work).op;
    return {
      ready(work) {
        const state = stateOf(work);
        if (opOf(work) === 'B') state.backwards.add(work);
        else if (opOf(work) === 'F') state.forwards.add(work);
      },
      started(work) {
        if (opOf(work) !== 'B') return;
        stateOf(work).owed.remove(work);
        const recompute = partner(graph, work, 'R', -1);
        if (recompute === NOTHING) return;
        stateOf(recompute).recomputes.add(recompute);
        progress.wake(at(graph.peerOf, recompute));
      },
      ended(work) {
        if (opOf(work) === 'B') stateOf(work).inFlight--;
      },
      next: (peer) => nextOf(at(peers, peer), progress, most),
    };
  };

const startingState = (graph: WorkGraph, bound: number): PeerState => ({
  bound,
  inFlight: 0,
  recomputed: NOTHING,
  backwards: microBatchQueue(graph),
  recomputes: microBatchQueue(graph),
  forwards: microBatchQueue(graph),
  owed: microBatchQueue(graph),
});

function nextOf(state: PeerState, { graph, open }: Progress, most: number | null): number {
  const { backwards, recomputes, forwards, owed } = state;
  const backward = backwards.first();
  if (backward !== undefined) {
    if (state.recomputed === backward) state.recomputed = NOTHING;
    return taken(backwards, backward);
  }
  const recompute = recomputes.first();
  if (recompute !== undefined && state.recomputed === NOTHING) {
    state.recomputed = partner(graph, recompute, 'B');
    return taken(recomputes, recompute);
  }
  const forward = forwards.first();
  if (forward === undefined) return NOTHING;
  const next = owed.first();
  // All but its recompute is there.
  const gradientHere = next !== undefined && next !== state.recomputed && open[next] === 1;
  const opportune = !gradientHere && (most === null || state.inFlight < most);
  if (state.inFlight >= state.bound && !opportune) return NOTHING;
  state.inFlight++;
  owed.add(partner(graph, forward, 'B'));
  return taken(forwards, forward);
}

function taken(queue: Queue, work: number): number {
  queue.remove(work);
  return work;
}

/** The same micro-batch's work of another kind, some stages on; NOTHING where there is none. */
function partner({ actions, wires }: WorkGraph, work: number, op: MicroOp, stagesOn = 0): number {
  const action = at(actions, work);
  if (!('microBatch' in action)) return NOTHING;
  const { stage, microBatch } = action;
  if (stage + stagesOn < 0) return NOTHING;
  return wires.number(op, stage + stagesOn, microBatch);
}
