/**
 * What updates in main memory add to a step (after Deep Optimizer States, Maurya et al., Middleware '24). They begin with the
 * commit, one shard after the other (`inUpdateOrder`). What others compute with is passed on once it is updated; all else is
 * updated beside what comes next, and the first forward of the next step waits at each block for its values.
 */
import { float, int, type PeerId } from '../base.ts';
import { inUpdateOrder, isPassedOn, shardsOf } from '../memory/shardMemory.ts';
import type { BlockName, Model } from '../model/model.ts';
import { passesOf } from '../plan/layered.ts';
import { holders, homeStage, type Plan } from '../plan/plan.ts';
import type { WorkGraph } from '../schedule/graph.ts';
import type { simulateEnds } from '../simulate/simulate.ts';
import type { PlannedPeer, StageShape } from './clusterCosts.ts';

/** Of one peer, in elements. */
interface HostUpdates {
  readonly passedOn: number;
  /** What a stage of its own computes with, after all that comes before it. */
  readonly own: readonly { readonly stage: number; readonly block: BlockName; readonly until: number }[];
}

/** Of every peer that updates something in main memory. */
export function hostUpdates(model: Model, plan: Plan, peers: Iterable<PeerId>): Map<PeerId, HostUpdates> {
  const known = holders(model, plan);
  return new Map(
    Array.from(peers, (peer) => {
      let [passedOn, until] = [0, 0];
      const own: HostUpdates['own'][number][] = [];
      for (const { work } of inUpdateOrder(shardsOf(model, plan, peer, known).map((work) => ({ work })))) {
        until += work.range[1] - work.range[0];
        const stage = work.isGathered && work.isPrimary ? homeStage(plan, work.block) : work.valuesStage;
        if (isPassedOn(work)) passedOn = until;
        else if (stage !== null && !work.isCoded) own.push({ stage, block: work.block, until });
      }
      return [peer, { passedOn, own }];
    }),
  );
}

interface Step {
  readonly plan: Plan;
  readonly graph: WorkGraph;
  readonly ends: ReturnType<typeof simulateEnds>;
  readonly forwardSeconds: (peer: PlannedPeer, stage: number, shape: StageShape, samples: number) => number;
}

/**
 * So long a peer's first forwards of a step stand still for values, at most; an element takes `elementSeconds`, and the step
 * begins `begins` seconds after its updates.
 */
export function valuesAwaited(
  { plan, graph, ends, forwardSeconds }: Step,
  peer: PlannedPeer,
  { own }: HostUpdates,
  elementSeconds: number,
  begins: number,
): number {
  let most = 0;
  const first = new Map<number, FirstForward>();
  for (const { stage, block, until } of own) {
    const begun = first.get(stage) ?? firstForward(plan, graph, ends, peer.id, stage);
    first.set(stage, begun);
    const before = shapeBefore(plan, stage, block);
    const reached = begins + begun.startSeconds + forwardSeconds(peer, stage, before, begun.samples);
    most = Math.max(most, until * elementSeconds - reached);
  }
  return most;
}

interface FirstForward {
  readonly startSeconds: number;
  readonly samples: number;
}

/** Of a stage; of a layered one its micro-batches go through each block together. */
function firstForward(
  plan: Plan,
  { peers, listFrom, actions }: WorkGraph,
  { seconds, endSeconds }: Step['ends'],
  peer: PeerId,
  stage: number,
): FirstForward {
  let startSeconds = Number.POSITIVE_INFINITY;
  let first: number | null = null;
  const place = peers.indexOf(peer);
  for (let work = int(listFrom, place); work < int(listFrom, place + 1); work++) {
    const action = actions[work];
    if (action?.op !== 'F' || action.stage !== stage) continue;
    const begun = float(endSeconds, work) - float(seconds, work);
    if (begun >= startSeconds) continue;
    startSeconds = begun;
    first = action.microBatch;
  }
  const planned = plan.stages[stage];
  const member = planned?.members.find((one) => one.peer === peer);
  const together = planned && member ? passesOf(planned, member).find((pass) => pass.some((id) => id === first)) : [];
  const samples = plan.microBatches.reduce(
    (sum, { id, samples: [from, to] }) => (together?.includes(id) ? sum + to - from : sum),
    0,
  );
  return { startSeconds, samples };
}

/** What a stage computes before it comes to this block. */
function shapeBefore({ stages }: Plan, stage: number, block: BlockName): StageShape {
  const [from, to] = stages[stage]?.layers ?? [0, 0];
  const first = stage === 0;
  if (block === 'embedding') return { first: false, last: false, layers: 0 };
  const layers = block === 'head' ? to - from : Number(block.slice('layer.'.length)) - from;
  return { first, last: false, layers };
}
