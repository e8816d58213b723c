/**
 * The placement and the order that a problem names, as often as it asks for, side by side: pipeline q has peers
 * q·p … q·p + p − 1 and micro-batches q·m … q·m + m − 1 to itself.
 */
import { assertNever, at, got, type PeerId, peerId } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import type { Schedule } from '../schedule/action.ts';
import { breadthFirst } from '../schedule/breadthFirst.ts';
import { chimera } from '../schedule/chimera.ts';
import { eager } from '../schedule/eager.ts';
import { gpipe } from '../schedule/gpipe.ts';
import { interleaved } from '../schedule/interleaved.ts';
import { oneForwardOneBackward } from '../schedule/oneForwardOneBackward.ts';
import { bidirectionalPlan, loopedPlan } from '../schedule/placement.ts';
import type { Policy } from '../schedule/policy.ts';
import { firstLayers, recomputing } from '../schedule/recompute.ts';
import { slots } from '../schedule/slots.ts';
import { varuna, varunaWork } from '../schedule/varuna.ts';
import { chunksOf, type SimulateProblem } from './problem.ts';

interface Pipeline {
  readonly plan: Plan;
  /** The lists in the order of the peers' numbers. */
  readonly schedule: Schedule;
}

/** In list order, where there is no policy. */
export function problemPipelines(problem: SimulateProblem): Pipeline & { readonly policy: Policy | undefined } {
  const { pipelines, microBatches, stages, warmup, maxInFlight } = problem;
  const each = Array.from({ length: pipelines }, (_, pipeline) => {
    const peers = stages.map((_, index) => peerId(String(pipeline * stages.length + index)));
    return renumbered(pipelineOf(problem, peers), peers, pipeline * microBatches);
  });
  const { plan } = at(each, 0);
  const joined: Plan = {
    ...plan,
    stages: plan.stages.map((stage, index) => ({
      ...stage,
      members: each.flatMap((own) => at(own.plan.stages, index).members),
    })),
    microBatches: each.flatMap((own) => own.plan.microBatches),
  };
  const bounds = () => new Map(each.flatMap((own) => [...slots(oneForwardOneBackward(own.plan, warmup))]));
  return {
    plan: joined,
    schedule: new Map(each.flatMap((own) => [...own.schedule])),
    policy:
      problem.schedule === 'eager'
        ? eager(bounds())
        : problem.schedule === 'varuna'
          ? varuna(bounds(), maxInFlight)
          : undefined,
  };
}

function pipelineOf(problem: SimulateProblem, peers: readonly PeerId[]): Pipeline {
  const { microBatches, pairs, warmup } = problem;
  const plan = loopedPlan(peers, microBatches, chunksOf(problem));
  switch (problem.schedule) {
    case 'gpipe':
    case 'eager':
      return { plan, schedule: gpipe(plan) };
    case '1f1b':
      return { plan, schedule: oneForwardOneBackward(plan, warmup) };
    case 'interleaved':
      return { plan, schedule: interleaved(plan) };
    case 'breadth-first':
      return { plan, schedule: breadthFirst(plan) };
    case 'chimera': {
      const both = bidirectionalPlan(peers, microBatches, pairs);
      return { plan: both, schedule: chimera(both) };
    }
    case 'varuna': {
      // Every stage but the last computes again.
      const again = recomputing({ ...plan, schedule: 'varuna' }, firstLayers([0, plan.stages.length - 1]));
      return { plan: again, schedule: varunaWork(again, gpipe(again)) };
    }
    default:
      return assertNever(problem.schedule);
  }
}

function renumbered({ plan, schedule }: Pipeline, peers: readonly PeerId[], first: number): Pipeline {
  return {
    plan: {
      ...plan,
      stages: plan.stages.map((stage) => ({
        ...stage,
        members: stage.members.map((member) => ({
          ...member,
          microBatches: member.microBatches.map((id) => id + first),
        })),
      })),
      microBatches: plan.microBatches.map((own) => ({ ...own, id: own.id + first })),
    },
    schedule: new Map(
      peers.map((peer) => [
        peer,
        got(schedule, peer).map((action) =>
          'microBatch' in action ? { ...action, microBatch: action.microBatch + first } : action,
        ),
      ]),
    ),
  };
}
