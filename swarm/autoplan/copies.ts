/** The replicas of a run's plans: how many it wishes for, where its donors are, and whether newcomers make more possible. */

import type { PeerId } from '../base.ts';
import type { PlanAnswer } from '../coordinator/events.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { type Plan, peers as peersOf } from '../plan/plan.ts';
import type { ClusterCosts, ReplicaWish } from '../planner/clusterCosts.ts';
import { lackOf, type Replicated, replicated, replicatedWithin, replicaWish } from '../planner/replicas.ts';
import { bufferLimitsOf } from './knownDonors.ts';
import type { ReplannerEvent } from './replannerState.ts';
import { ownAmong, type Replanning, remember } from './replanning.ts';
import { arrivalReason, capsOf, hostsOf } from './wishes.ts';

type PlanWanted = Extract<ReplannerEvent, { type: 'planWanted' }>;

/** A plan in force changes for copies of such a share of the state at least: it is a hand-over each time. */
const LEAST_COPIED = 0.1;
/** Who came so shortly before may go as soon. */
const NEW_MS = 10_000;

/** `before`: whose keepers have the state. */
export function wishOf({ state: { config, donors }, nowMs }: Replanning, before: Plan | null): ReplicaWish {
  const sites = donors.map((donor) => {
    const isNew = !donor.isOwn && nowMs - donor.joinedMs < NEW_MS;
    return [donor.peer, { network: donor.address, browser: donor.rememberedAs, isNew }];
  });
  return replicaWish(config.wishes.replicas, { sites: Object.fromEntries(sites), before });
}

/** A plan that no measurement decides, with its replicas: by the memory that donors give. One that was given has its own. */
export function withCopies(replanning: Replanning, wanted: PlanWanted, made: PlanAnswer): PlanAnswer {
  const { config, donors } = replanning.state;
  const { offer, inForce } = wanted;
  const given = config.wishes.plan;
  if (made.answer === 'none' || (given && peersOf(given).length === offer.length)) return made;
  const plan = made.answer === 'plan' ? made.plan : inForce;
  if (plan === null) return made;
  const model = acceptedModel(config);
  const run = {
    model,
    batch: config.batch,
    caps: capsOf(wanted),
    hosts: hostsOf(wanted),
    buffers: bufferLimitsOf(config, donors),
    offer: offer.map(({ peer }) => peer),
    own: ownAmong(replanning),
  };
  const wish = wishOf(replanning, inForce);
  const copied = replicatedWithin(run, plan, wish);
  if (made.answer === 'stays' && !hasMore(copied, plan, wish)) return made;
  remember(replanning, { ...copied, idle: [] }, [], false);
  const reason = made.answer === 'plan' ? made.reason : `${arrivalReason(offer, peersOf(plan))}, and keeps copies`;
  return { answer: 'plan', plan: copied.plan, reason };
}

const hasMore = ({ plan }: Replicated, inForce: Plan, wish: ReplicaWish): boolean =>
  lackOf(inForce, wish) - lackOf(plan, wish) > LEAST_COPIED;

/** The plan in force with copies that it lacks, where the peers at hand can bear them now; null: it has as many as it can. */
export function moreCopied(
  replanning: Replanning,
  costs: ClusterCosts,
  inForce: Plan,
): { readonly copied: Replicated; readonly reason: string } | null {
  const wish = wishOf(replanning, inForce);
  if (lackOf(inForce, wish) <= LEAST_COPIED) return null;
  const copied = replicated(costs, inForce, wish);
  if (!hasMore(copied, inForce, wish)) return null;
  const members = new Set<PeerId>(peersOf(inForce));
  const newcomers = peersOf(copied.plan).filter((peer) => !members.has(peer));
  const who = newcomers.length === 0 ? 'the donors of the plan' : newcomers.join(', ');
  return { copied, reason: `${who} can keep copies of the state that are missing` };
}
