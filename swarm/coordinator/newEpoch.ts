/** How an epoch begins: what is stored and said of it, and for whom it waits. Which one, planInForce.ts decides. */
import { invariant } from '../base.ts';
import type { StateSource } from '../messages/messages.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { type Plan, placesChanged } from '../plan/plan.ts';
import { committedPassages } from '../ways/evidence.ts';
import type { Passage } from '../ways/passage.ts';
import { isAudited } from './audits.ts';
import { trafficBytes } from './bounds.ts';
import { allowedFor, baseAllowedMs } from './deadlines.ts';
import type { CoordinatorConfig, Predicted } from './events.ts';
import { fillingOf, lateKey } from './filling.ts';
import { watchedFrom } from './progress.ts';
import { leftBehind, withStale } from './replicas.ts';
import { type CoordinatorState, membersOf, type PlanInForce, type Preparing, type Source } from './state.ts';
import { living, membersInvolved } from './successor.ts';
import { dutiesOf } from './tally.ts';
import { change, log, send, type Transition } from './transition.ts';

/** A plan takes over, checked where its first step is done again for that. `isWarm`: its members got ready before. */
export function begin(
  transition: Transition,
  {
    plan,
    predicted = null,
    isChecked = false,
    instead,
  }: {
    readonly plan: Plan;
    readonly predicted?: Predicted | null;
    readonly isChecked?: boolean;
    readonly instead?: string;
  },
  source: Source,
  why: string,
  isWarm = false,
) {
  const reason = instead === undefined ? why : `${why}; ${instead}`;
  change(transition, { proposal: null, warmingUp: null });
  const next = newlyInForce(transition.state, plan, predicted);
  prepare(transition, { ...next, isChecked: next.isChecked || isChecked }, source, reason, isWarm);
}

export const newlyInForce = (
  { config, doubt }: CoordinatorState,
  plan: Plan,
  predicted: Predicted | null = null,
): Omit<PlanInForce, 'epoch'> => ({
  plan,
  duties: dutiesOf(acceptedModel(config), plan, committedIn(config, plan)),
  slowestMs: null,
  fastestMs: null,
  lacking: [],
  filling: null,
  watched: [],
  keptOnly: false,
  predicted,
  isChecked: doubt !== null,
  trafficBytes: trafficBytes(config, plan),
});

function committedIn(config: CoordinatorConfig, plan: Plan): readonly Passage[] | undefined {
  const { batch, wire } = config;
  return isAudited(config, plan)
    ? committedPassages(acceptedModel(config), plan, { sequence: batch.sequence, wire })
    : undefined;
}

/** Everyone who has a part in it is told of the new epoch, and from whom it has the state. */
export function prepare(
  transition: Transition,
  before: Omit<PlanInForce, 'epoch'>,
  source: Source,
  why: string,
  isWarm = false,
) {
  const changed = source.from === 'peers' ? placesChanged(source.inForce.plan, before.plan) : null;
  const reason = changed === null ? why : `${why}; ${changed}`;
  const epoch = Math.max(transition.state.epoch, transition.groups.usedEpoch) + 1;
  const { warmingUp } = transition.state;
  // Whoever still gets ready for another plan is asked anew: links of an older epoch may have been given up.
  const stillWarm = warmingUp?.waitingFor.length === 0 ? warmingUp : null;
  change(transition, { epoch, sightings: [], relayedSlices: [], warmingUp: stillWarm });
  const { generation, committedSteps: step, config } = transition.state;
  const { relayed: watched } = transition.state;
  const from: StateSource = source.from === 'peers' ? fromPeers(transition.state, source.inForce) : source;
  const filling = from.from === 'peers' ? fillingOf(config, from.plan, before.plan) : null;
  const lacking = withStale(leftBehind(before.lacking), filling?.late.map(lateKey) ?? []);
  const inForce: PlanInForce = { ...before, lacking, filling, watched, epoch };
  const members = membersOf(inForce);
  const { seen } = transition.state;
  const allowed =
    allowedFor(isWarm ? 'handOver' : 'gettingReady', seen, before.predicted) +
    baseAllowedMs(acceptedModel(config), before.plan);
  const phase: Preparing = {
    name: 'preparing',
    ...watchedFrom(inForce, transition.now),
    source,
    waitingFor: members,
    deadline: transition.now + allowed,
    isWarm,
  };
  change(transition, { phase });
  const involved = membersInvolved(transition.state);
  const relayed = transition.state.relayed.filter((pair) => pair.every((peer) => involved.includes(peer)));
  transition.effects.push({ type: 'storeEpoch', epoch, generation, plan: inForce.plan, reason, relayed });
  const donors = members.length === 1 ? '1 donor' : `${members.length} donors`;
  log(transition, 'info', `Plan ${epoch} with ${donors}, from step ${step + 1} on: ${reason}.`);
  const told: StateSource = from.from === 'peers' && filling ? { ...from, late: true } : from;
  const check = inForce.isChecked ? ({ check: true } as const) : {};
  const audited = isAudited(config, inForce.plan) ? ({ audited: true } as const) : {};
  const met = config.own === undefined ? {} : { met: transition.state.met };
  const message = {
    type: 'prepare',
    epoch,
    generation,
    step,
    source: told,
    plan: inForce.plan,
    ...met,
    ...check,
    ...audited,
  } as const;
  for (const peer of involved) {
    const others = relayed.flatMap((pair) => (pair.includes(peer) ? pair.filter((other) => other !== peer) : []));
    send(transition, [peer], others.length === 0 ? message : { ...message, relayed: others });
  }
}

export function fromPeers(state: CoordinatorState, inForce: PlanInForce): StateSource {
  const plan = living(state, inForce);
  invariant(plan, 'somebody has every shard');
  const isSalvaged = inForce.keptOnly || plan !== inForce.plan;
  return { from: 'peers', epoch: inForce.epoch, plan, ...(isSalvaged ? { salvaged: true as const } : {}) };
}
