/**
 * A run under `auto` in a time of its own, for tests: all decisions, donors that take as long as they really do, whatever
 * they say, and searches that answer after a while. It counts what was committed.
 */

import { clusterProblem } from '../autoplan/knownDonors.ts';
import { capacityOf, type PlanWishes } from '../autoplan/wishes.ts';
import { addToKey, type PeerId, peerId } from '../base.ts';
import type { CoordinatorConfig, DonorMessage } from '../coordinator/events.ts';
import { begin, type DecisionState, decide, nextDecision, wholeRun } from '../decisions/decide.ts';
import type { DecisionEffect, DecisionEvent } from '../decisions/events.ts';
import { NO_LIMITS } from '../limits.ts';
import type { ServerMessage } from '../messages/messages.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { type Plan, peers } from '../plan/plan.ts';
import { planCluster } from '../planner/clusterPlan.ts';
import { answer } from './honestDonor.ts';
import { CONFIG, profile, samplesOf } from './plannedRun.ts';
import { ADAPTER, rehearsalTerms } from './rehearsalTerms.ts';

/** How a stranger behaves: as it should, or what it does not do; `starves`: what the others wait for it never sends. */
export type Manner = 'honest' | 'never warm' | 'never ready' | 'mute' | 'starves';

export interface TimedDonor {
  readonly name: string;
  readonly manner: Manner;
  readonly joinsAtMs: number;
  /** Seconds of a layer's forward for a sample, as it says and as it is. */
  readonly claims: number;
  readonly truth: number;
  /** It vanishes after so long; absent: it stays. */
  readonly staysMs?: number;
  /** It proves that it was here before. */
  readonly wasHere?: true;
}

const BEAT_MS = 1_000;
const SEARCH_MS = 500;
const SEARCH_WORK = 300;
/** One who is refused comes again after so long, each time twice as long. */
const AGAIN_MS = 60_000;
/** To get ready for a plan, with the state or without; anything else but a step. */
const WORD_MS = 20;

interface Visitor extends TimedDonor {
  readonly peer: PeerId;
  plan: Plan | null;
}

class TimedRun {
  readonly #queue: { readonly atMs: number; readonly act: () => void }[] = [];
  readonly #here = new Map<PeerId, Visitor>();
  readonly #visits = new Map<string, number>();
  #state: DecisionState;
  #nowMs = 0;
  commits = 0;
  /** Committed steps that were given up. */
  givenUp = 0;
  /** Steps that each reported. */
  readonly reports = new Map<string, number>();
  readonly #warmMs: number;

  constructor(config: CoordinatorConfig, wishes: PlanWishes, warmMs: number) {
    this.#warmMs = warmMs;
    const start = {
      ...{ lastCommit: null, applied: null, plans: [], credit: [], unsaved: [] },
      ...{ generation: 0, epoch: 0, committedSteps: 0, newestCheckpointStep: 0, savedLossScale: null },
      ...{ operatorPaused: false, evaluatedSteps: null, evaluationLoss: null, loss: null },
    };
    this.#state = begin({ run: config, planning: { ...CONFIG, wishes } }, start);
  }

  comes(donor: TimedDonor, atMs = donor.joinsAtMs): void {
    this.#later(atMs, () => {
      const visit = this.#visits.get(donor.name) ?? 0;
      this.#visits.set(donor.name, visit + 1);
      const peer = peerId(`${donor.name}${visit}`);
      this.#here.set(peer, { ...donor, peer, plan: null });
      this.#happens({
        ...{ type: 'donorJoined', peer, adapter: ADAPTER, limits: NO_LIMITS, profile: profile(donor.claims) },
        ...{ rememberedAs: null, remembered: null, address: donor.name, isOwn: false },
        ...(donor.wasHere && { wasHere: true }),
      });
      if (donor.staysMs !== undefined) this.#later(this.#nowMs + donor.staysMs, () => this.#vanishes(peer));
    });
  }

  until(endMs: number): void {
    for (;;) {
      const deadline = nextDecision(this.#state) ?? Infinity;
      const next = this.#queue[0];
      const atMs = Math.min(deadline, next?.atMs ?? Infinity);
      if (atMs > endMs) return;
      this.#nowMs = Math.max(this.#nowMs, atMs);
      if (next !== undefined && next.atMs <= deadline) {
        this.#queue.shift();
        next.act();
      } else this.#happens({ type: 'deadlineReached' });
    }
  }

  #later(atMs: number, act: () => void): void {
    const index = this.#queue.findIndex((other) => other.atMs > atMs);
    this.#queue.splice(index === -1 ? this.#queue.length : index, 0, { atMs, act });
  }

  #vanishes(peer: PeerId): void {
    if (this.#here.delete(peer)) this.#happens({ type: 'donorGone', peer, detail: 'its connection closed' });
  }

  #happens(event: DecisionEvent): void {
    const [state, effects] = decide(this.#state, event, this.#nowMs);
    this.#state = state;
    for (const effect of effects) this.#perform(effect);
  }

  #perform(effect: DecisionEffect): void {
    if (effect.type === 'storeCommit') this.commits++;
    if (effect.type === 'rollBack') {
      this.givenUp += this.commits - effect.toStep;
      this.commits = effect.toStep;
    }
    if (effect.type === 'send') this.#hears(effect.to, effect.message);
    if (effect.type === 'search') {
      const { search, problem } = effect;
      const found = planCluster(clusterProblem(CONFIG, problem), ({ work }) => work < SEARCH_WORK);
      this.#later(this.#nowMs + SEARCH_MS, () => this.#happens({ type: 'searched', search, found }));
    }
    if (effect.type !== 'refuse') return;
    const donor = this.#here.get(effect.peer);
    this.#here.delete(effect.peer);
    const visits = this.#visits.get(donor?.name ?? '') ?? 0;
    if (donor) this.comes(donor, this.#nowMs + AGAIN_MS * 2 ** (visits - 1));
  }

  #hears(to: PeerId, message: ServerMessage): void {
    const donor = this.#here.get(to);
    if (donor === undefined) return;
    if (message.type === 'prepare') donor.plan = message.plan;
    const plan = message.type === 'warm' ? message.plan : donor.plan;
    const reply = plan && answer(CONFIG, to, plan, message);
    if (!plan || !reply) return;
    const { manner } = donor;
    if (manner === 'never warm' && (reply.type === 'warmed' || reply.type === 'ready')) return;
    if (manner === 'never ready' && reply.type === 'ready') return;
    if (manner === 'mute' && reply.type === 'report') return;
    const starving = peers(plan).filter((peer) => this.#here.get(peer)?.manner === 'starves');
    if (starving.length > 0 && message.type === 'start') {
      this.#beats(to, message, starving);
      return;
    }
    this.#later(this.#nowMs + this.#takesMs(plan, reply), () => {
      if (!this.#here.has(to)) return;
      if (reply.type === 'report') addToKey(this.reports, donor.name, 1);
      this.#happens({ type: 'donorSaid', peer: to, message: reply });
    });
  }

  #takesMs(plan: Plan, reply: DonorMessage): number {
    if (reply.type === 'report') return this.#stepMs(plan);
    const { phase } = wholeRun(this.#state).coordinator;
    const isCold = reply.type === 'ready' && phase.name === 'preparing' && !phase.isWarm;
    return reply.type === 'warmed' || isCold ? this.#warmMs : WORD_MS;
  }

  /** Nobody can report this step; the honest ones say each second for whom they wait, as long as it is not given up. */
  #beats(to: PeerId, { epoch, step }: { epoch: number; step: number }, waitsFor: readonly PeerId[]): void {
    if (waitsFor.includes(to)) return;
    const at = { epoch, step, done: 1, waitsFor: [...waitsFor], hasReported: false };
    this.#later(this.#nowMs + BEAT_MS, () => {
      if (!this.#here.has(to) || wholeRun(this.#state).coordinator.epoch !== epoch) return;
      this.#happens({ type: 'donorSaid', peer: to, message: { type: 'heartbeat', at } });
      this.#beats(to, { epoch, step }, waitsFor);
    });
  }

  /** A pipeline is as slow as its slowest. */
  #stepMs(plan: Plan): number {
    const seconds = peers(plan).map((peer) => 3 * samplesOf(plan, peer) * (this.#here.get(peer)?.truth ?? 0));
    return 1_000 * Math.max(...seconds);
  }
}

interface Terms {
  /** What plans are made by. */
  readonly wishes?: PlanWishes;
  /** So long it takes to get ready for a plan. */
  readonly warmMs?: number;
}

/** What a run has done after so many seconds. */
export function timedRun(
  donors: readonly TimedDonor[],
  seconds: number,
  { wishes = CONFIG.wishes, warmMs = WORD_MS }: Terms = {},
): Pick<TimedRun, 'commits' | 'givenUp' | 'reports'> {
  const { config } = rehearsalTerms({
    ...{ layers: acceptedModel(CONFIG).layers, model: CONFIG.model, batch: CONFIG.batch, steps: 1e9 },
    capacity: capacityOf(acceptedModel(CONFIG), wishes),
  });
  const run = new TimedRun(config, wishes, warmMs);
  for (const donor of donors) run.comes(donor);
  run.until(1_000 * seconds);
  return run;
}

/** Steps that stand committed then. */
export const commitsIn = (donors: readonly TimedDonor[], seconds: number, wishes?: PlanWishes): number =>
  timedRun(donors, seconds, wishes && { wishes }).commits;
