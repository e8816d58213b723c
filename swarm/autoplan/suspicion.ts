/**
 * Steps take much longer than their members' words let expect, and no plan before them says whose part it is: the first
 * plan of a run, or one that had to be made at once. Then its members are tried one after the other, who has most of the
 * work first: one is taken for as slow as the clock says, and where a plan with less of it makes steps shorter, it was that
 * one. Each is tried once a visit.
 */
import { type PeerId, rounded } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import { workShares } from './doubt.ts';
import { predictedSeconds } from './predicting.ts';
import { addCause, change, changeDonor, isAuto, type Replanning } from './replanning.ts';

/** Far more than machines swing, and than messages take: steps are longer where they take so many times as long, and so much more. */
const LONGER = 2;
const LEAST_EXCESS_SECONDS = 0.5;
/** Times that a donor is slowed until its claims fit: a millionfold. */
export const MOST_SLOWINGS = 20;

/** `seconds`: of a step of the plan in force. */
export function suspect(replanning: Replanning, plan: Plan, seconds: number) {
  const isLonger = (): boolean => {
    const predicted = predictedSeconds(replanning.state, plan);
    return predicted !== null && seconds > LONGER * predicted + LEAST_EXCESS_SECONDS;
  };
  if (!isAuto(replanning) || replanning.run.offer.length < 2 || replanning.state.suspicion !== null) return;
  const shares = workShares(plan);
  const shareOf = ({ peer }: { readonly peer: PeerId }): number => shares.get(peer) ?? 0;
  const members = replanning.state.donors.filter((donor) => shareOf(donor) > 0 && !donor.isOwn && !donor.wasTried);
  for (const { peer, slowdown, stepsSeen } of members.toSorted((a, b) => shareOf(b) - shareOf(a))) {
    if (!isLonger()) return;
    change(replanning, { suspicion: { peer, slowdown, stepsSeen } });
    for (let factor = 2 * slowdown, time = 0; time < MOST_SLOWINGS && isLonger(); factor *= 2, time++)
      changeDonor(replanning, peer, { slowdown: factor, stepsSeen: 0, wasTried: true });
    const text = `a step takes ${rounded(seconds, 3)} s, longer than donors say: ${peer} may be the slow one`;
    if (!isLonger()) return addCause(replanning, { reason: text, by: null });
    // However slow it were, it is not its work.
    acquit(replanning);
  }
}

/** It was not that one: it is what it was before. */
export function acquit(replanning: Replanning) {
  const { suspicion } = replanning.state;
  if (suspicion === null) return;
  const { peer, slowdown, stepsSeen } = suspicion;
  changeDonor(replanning, peer, { slowdown, stepsSeen });
  change(replanning, { suspicion: null });
}
