/**
 * Varuna (Athlur et al. 2022): activations are not kept but computed again, so there is a recompute before each backward
 * of every stage but the last. A free peer takes a backward, else a recompute, else a forward. A recompute is issued when
 * the next stage starts its backward, so that it hides behind that and the gradient's way here, and at most one waits
 * for its gradient. Forwards keep to 1F1B's bound in each stage, but a peer whose next gradient is not here goes past it
 * rather than stand idle. See SPEC.md, SC16 and SC26.
 */
import { at, got, type PeerId } from '../base.ts';
import { owner, type Plan } from '../plan/plan.ts';
import type { MicroOp, Schedule } from './action.ts';
import type { WorkGraph } from './graph.ts';
import { microBatchQueue, type Queue } from './messageDriven.ts';
import { NO_WORK, type Policy, type WorkProgress } from './policy.ts';
import { freedBy } from './slots.ts';

/** Whether a peer computes a stage's layers again when the next stage begins its backward. The last stage waits for none. */
export function recomputesAhead({ schedule, stages }: Plan, stage: number, peer: PeerId): boolean {
  const own = stages[stage]?.members.find((member) => member.peer === peer);
  return schedule === 'varuna' && stage < stages.length - 1 && own !== undefined && own.recompute.length > 0;
}

/** What there is to do, from a builder's forwards and backwards; the order is the policy's. */
export const varunaWork = (plan: Plan, built: Schedule): Schedule =>
  new Map(
    [...built].map(([peer, list]) => [
      peer,
      list.flatMap((action) =>
        action.op === 'B' && recomputesAhead(plan, action.stage, peer)
          ? [{ ...action, op: 'R' as const }, action]
          : [action],
      ),
    ]),
  );

/**
 * Who is to hear that a stage has begun its backward of a micro-batch: the peer that computes it again in the stage before;
 * null: nobody, or the same peer.
 */
export function awaitsBeginning(plan: Plan, stage: number, microBatch: number): PeerId | null {
  if (stage === 0) return null;
  const before = owner(plan, stage - 1, microBatch);
  return before !== owner(plan, stage, microBatch) && recomputesAhead(plan, stage - 1, before) ? before : null;
}

/** Micro-batches in flight of one stage. */
interface InFlight {
  readonly bound: number;
  count: number;
  readonly forwards: Queue;
}

interface PeerState {
  readonly stages: ReadonlyMap<number, InFlight>;
  /** Whose place is free after a backward. */
  readonly freed: ReturnType<typeof freedBy>;
  /** The backward that has its activation recomputed and waits for its gradient, or NO_WORK. */
  recomputed: number;
  readonly backwards: Queue;
  readonly recomputes: Queue;
  /** Backwards of micro-batches in flight, whether their gradient is here or not. */
  readonly owed: Queue;
}

/** `bounds`: in each stage of a peer, 1F1B's; `most` in flight in a stage when a peer goes past its bound; null: unlimited. */
export const varuna =
  (bounds: ReadonlyMap<PeerId, ReadonlyMap<number, number>>, most: number | null): Policy =>
  (progress) => {
    const { graph } = progress;
    const peers = graph.peers.map((peer, place): PeerState => startingState(graph, place, got(bounds, peer)));
    const stateOf = (work: number): PeerState => at(peers, at(graph.peerOf, work));
    const opOf = (work: number) => at(graph.actions, work).op;
    /** Recomputes of what the next stage says that it has begun, whose forward is not done: of a sound swarm none. */
    const early = new Set<number>();
    return {
      ready(work) {
        const state = stateOf(work);
        if (opOf(work) === 'B') state.backwards.add(work);
        else if (opOf(work) === 'F') stageOf(state, graph, work).forwards.add(work);
        else if (early.delete(work)) state.recomputes.add(work);
      },
      started(work) {
        if (opOf(work) !== 'B') return;
        stateOf(work).owed.remove(work);
        const recompute = partner(graph, work, 'R', -1);
        if (recompute === NO_WORK) return;
        if (at(progress.open, recompute) !== 0) return void early.add(recompute);
        stateOf(recompute).recomputes.add(recompute);
        progress.wake(at(graph.peerOf, recompute));
      },
      ended(work) {
        const action = at(graph.actions, work);
        if (action.op !== 'B') return;
        const { stages, freed } = stateOf(work);
        for (const stage of freed(action)) got(stages, stage).count--;
      },
      next: (peer) => nextOf(at(peers, peer), progress, most),
    };
  };

function startingState(graph: WorkGraph, place: number, bounds: ReadonlyMap<number, number>): PeerState {
  const list = graph.actions.slice(at(graph.listFrom, place), at(graph.listFrom, place + 1));
  return {
    stages: new Map(
      [...bounds].map(([stage, bound]) => [stage, { bound, count: 0, forwards: microBatchQueue(graph) }]),
    ),
    freed: freedBy(list),
    recomputed: NO_WORK,
    backwards: microBatchQueue(graph),
    recomputes: microBatchQueue(graph),
    owed: microBatchQueue(graph),
  };
}

function nextOf(state: PeerState, { graph, open }: WorkProgress, most: number | null): number {
  const { backwards, recomputes, owed } = state;
  const backward = backwards.first();
  if (backward !== undefined) {
    if (state.recomputed === backward) state.recomputed = NO_WORK;
    return taken(backwards, backward);
  }
  const recompute = recomputes.first();
  if (recompute !== undefined && state.recomputed === NO_WORK) {
    state.recomputed = partner(graph, recompute, 'B');
    return taken(recomputes, recompute);
  }
  const next = owed.first();
  // All but its recompute is there.
  const gradientHere =
    next !== undefined && next !== state.recomputed && open[next] === 1 && partner(graph, next, 'R') !== NO_WORK;
  let [chosen, of]: [number, InFlight | null] = [NO_WORK, null];
  for (const stage of state.stages.values()) {
    const forward = stage.forwards.first();
    const opportune = !gradientHere && (most === null || stage.count < most);
    if (forward === undefined || (stage.count >= stage.bound && !opportune)) continue;
    if (of === null || microBatchOf(graph, forward) < microBatchOf(graph, chosen)) [chosen, of] = [forward, stage];
  }
  if (of === null) return NO_WORK;
  of.count++;
  owed.add(partner(graph, chosen, 'B'));
  return taken(of.forwards, chosen);
}

function taken(queue: Queue, work: number): number {
  queue.remove(work);
  return work;
}

function stageOf({ stages }: PeerState, { actions }: WorkGraph, work: number): InFlight {
  const action = at(actions, work);
  return got(stages, 'stage' in action ? action.stage : NO_WORK);
}

function microBatchOf({ actions }: WorkGraph, work: number): number {
  const action = at(actions, work);
  return 'microBatch' in action ? action.microBatch : NO_WORK;
}

/** The same micro-batch's work of another kind, some stages on; NO_WORK where there is none. */
function partner({ actions, wires }: WorkGraph, work: number, op: MicroOp, stagesOn = 0): number {
  const action = at(actions, work);
  if (!('microBatch' in action)) return NO_WORK;
  const { stage, microBatch } = action;
  if (stage + stagesOn < 0) return NO_WORK;
  return wires.number(op, stage + stagesOn, microBatch);
}
