/**
 * Chimera (Li and Hoefler 2021): f pairs of pipelines run over the same p peers in opposite directions, so that one fills
 * where the other drains. Each peer orders its work by slots of equal length: with j the micro-batch's place in its
 * pipeline and block β,
 *   forward of stage s at 2j + s + 2p·β        backward at 2j + p + (p − 1 − s) + 2p·β.
 * On an even number of peers no two actions of a peer share a slot: at its stage of one direction the slots are even
 * where those of the other are odd. See SPEC.md, SC14.
 */
import { at, got } from '../base.ts';
import { type Plan, peers } from '../plan/plan.ts';
import type { MicroAction, Schedule } from './action.ts';

/** For a bidirectional plan that has no misfit. */
export function chimera(plan: Plan): Schedule {
  const p = plan.stages.length;
  const perPipeline = p / at(plan.stages, 0).members.length;
  const ranks = new Map(
    plan.microBatches
      .map(({ id }) => id)
      .toSorted((a, b) => a - b)
      .map((id, rank) => [id, rank]),
  );
  const slot = ({ op, stage, microBatch }: MicroAction): number => {
    const rank = got(ranks, microBatch);
    const place = (rank % p) % perPipeline;
    return 2 * place + (op === 'F' ? stage : p + (p - 1 - stage)) + 2 * p * Math.floor(rank / p);
  };
  const lists = new Map(peers(plan).map((peer): [typeof peer, MicroAction[]] => [peer, []]));
  plan.stages.forEach(({ members }, stage) => {
    for (const { peer, microBatches } of members)
      for (const microBatch of microBatches)
        lists.get(peer)?.push({ op: 'F', stage, microBatch }, { op: 'B', stage, microBatch });
  });
  return new Map([...lists].map(([peer, list]) => [peer, list.toSorted((a, b) => slot(a) - slot(b))]));
}
