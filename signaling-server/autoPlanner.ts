/**
 * The plan of the best predicted step time, for whoever is at hand (`--schedule auto`). Its one idea: two clocks. Where a
 * plan is needed at once (the run begins, a member is lost) it is searched for at once and shortly; everything else (a
 * newcomer, a drift, other limits) is judged beside the training, and what is worth the change is proposed to the
 * coordinator, which decides when. Profiles are kept fresh from the run's own spans and links.
 */

import { clusterAtHand, sharesOf } from '../swarm/autoplan/atHand.ts';
import { Drift, isOff } from '../swarm/autoplan/drift.ts';
import { type Batch, hasTimes, type PeerProfile, returnedProfile, workSeconds } from '../swarm/autoplan/peerProfile.ts';
import { corrected, SpanWindow, workDone } from '../swarm/autoplan/spans.ts';
import { isWorth, movingSeconds } from '../swarm/autoplan/worth.ts';
import { type PeerId, peerId, type Result, success } from '../swarm/base.ts';
import type { Effect, Proposal } from '../swarm/coordinator/state.ts';
import type { Limits } from '../swarm/limits.ts';
import { predictedBytes } from '../swarm/memory.ts';
import type { LinkReport, PeerMessage, Profile, ReportMessage, Snapshot } from '../swarm/messages.ts';
import type { Model } from '../swarm/model.ts';
import { type Plan, peers as peersOf } from '../swarm/plan.ts';
import { type ClusterCosts, type ClusterProblem, clusterCosts } from '../swarm/planner/clusterCosts.ts';
import type { ClusterPlan } from '../swarm/planner/clusterPlan.ts';
import { equalSplit } from '../swarm/planner/equalSplit.ts';
import { fittingSplit, type MemoryCaps } from '../swarm/planner/fit.ts';
import { forecast } from '../swarm/planner/forecast.ts';
import { planAtOnce } from './planSearch.ts';
import type { PlanSearch } from './planThread.ts';

/** Getting ready, until it was measured: kernels compile, links open. */
const PREPARE_SECONDS = 3;
/** Every so many steps the links are looked at. */
const LOOK_EVERY_STEPS = 10;
const STEPS_KEPT = 32;
/** Every GPU that passes the admission has so much. */
const LEAST_MEMORY_BYTES = 256 * 2 ** 20;

export interface AutoPlannerOptions {
  readonly model: Model;
  readonly batch: Batch;
  /** Milliseconds. */
  readonly now: () => number;
  /** At length, beside everything else. */
  readonly search: PlanSearch;
  /** What the search holds is not needed any more. */
  readonly release?: () => void;
  /** What donors measured on their last visits. */
  readonly kept?: KeptProfiles;
  /** It keeps profiles and predicts, but changes no plan. */
  readonly onlyPredicts?: boolean;
}

export interface KeptProfiles {
  profile(donor: string): PeerProfile | null;
  save(donor: string, profile: PeerProfile): void;
}

/** The run, as far as its planner sees it. */
export interface Planned {
  /** Donors that a plan may use, in the order they joined. */
  readonly offer: readonly PeerId[];
  readonly plan: Plan | null;
}

/** What it tells the run. */
export interface PlannerHost {
  planned(): Planned;
  propose(proposal: Proposal | null): void;
  /** The numbers behind the plan in force, to be kept. */
  record(detail: string): void;
  log(level: 'info' | 'debug', text: string): void;
}

export type Planning = NonNullable<Snapshot['planning']>;

interface Known {
  /** By which it is remembered. */
  readonly donor: string | null;
  profile: PeerProfile;
  limits: Limits;
  readonly spans: SpanWindow;
  /** As the plan in force was made, or looked at last. */
  planned: PeerProfile;
  expected: ReturnType<typeof workSeconds> | null;
}

export class AutoPlanner {
  readonly #options: AutoPlannerOptions;
  readonly #donors = new Map<PeerId, Known>();
  readonly #links = new Map<PeerId, readonly LinkReport[]>();
  readonly #drift = new Drift();
  /** Why each plan that came out of a search is as it is. */
  readonly #answers = new WeakMap<Plan, ClusterPlan>();
  /** Plans that were searched for at length. */
  readonly #judged = new WeakSet<Plan>();
  #host: PlannerHost | null = null;
  /** The answer of a search at once holds until the donors, or what is known of them, are others. */
  #atOnce: { readonly key: string; readonly plan: Result<Plan> } | null = null;
  #reasons: string[] = [];
  #judging: Promise<void> | null = null;
  #planning: Planning | null = null;
  #begunMs: number | null = null;
  #prepareSeconds = PREPARE_SECONDS;
  #steps: number[] = [];

  /** What the admission tries at most: the whole model on one donor. */
  readonly #wholeBytes: number;

  constructor(options: AutoPlannerOptions) {
    this.#options = options;
    const { model, batch } = options;
    const alone = peerId('alone');
    const whole = equalSplit(model, batch.samples, [alone]);
    this.#wholeBytes = predictedBytes(model, whole, alone, batch.sequence);
  }

  attach(host: PlannerHost): void {
    this.#host = host;
  }

  /** For the operator; null before the first plan. */
  get planning(): Planning | null {
    if (this.#planning === null) return null;
    const sorted = this.#steps.toSorted((a, b) => a - b);
    return { ...this.#planning, measuredSeconds: sorted[Math.floor((sorted.length - 1) / 2)] ?? null };
  }

  /** As it is known by now. */
  profile(peer: PeerId): PeerProfile | null {
    const known = this.#donors.get(peer);
    return known ? this.#fresh(known) : null;
  }

  /** Before the coordinator hears of it. A donor that is remembered starts from its last numbers. */
  measured(peer: PeerId, profile: Profile, limits: Limits, donor: string | null): void {
    const last = (donor !== null && this.#options.kept?.profile(donor)) || null;
    const returned = returnedProfile({ ...profile, memoryBytes: this.#memory(profile, limits) }, last);
    this.#donors.set(peer, {
      donor,
      profile: returned,
      planned: returned,
      limits,
      spans: new SpanWindow(),
      expected: null,
    });
    this.#atOnce = null;
    this.consider(`${peer} joins`);
  }

  /** Before the coordinator hears of it. */
  heard(peer: PeerId, message: PeerMessage): void {
    const { type } = message;
    if (type === 'limits') this.#limited(peer, message.limits);
    if (type === 'report') this.#reported(peer, message);
    if (type === 'pause' || type === 'resume' || type === 'leave') this.consider(`${peer} said ${type}`);
  }

  #limited(peer: PeerId, limits: Limits): void {
    const known = this.#donors.get(peer);
    if (!known) return;
    known.limits = limits;
    known.spans.clear();
    this.consider(`${peer} has other limits`);
  }

  gone(peer: PeerId): void {
    this.#keep(this.#donors.get(peer));
    this.#donors.delete(peer);
    this.#links.delete(peer);
    this.#atOnce = null;
    this.consider(`${peer} is gone`);
  }

  /** A report under the plan in force. */
  #reported(peer: PeerId, { epoch, spans, links = [] }: ReportMessage): void {
    const known = this.#donors.get(peer);
    const plan = this.#host?.planned().plan;
    this.#links.set(peer, links);
    if (!known || !plan || epoch !== this.#planning?.epoch) return;
    known.spans.add(workDone(plan, peer, spans));
    const { expected } = known;
    if (expected === null) return;
    let [took, should] = [0, 0];
    for (const work of known.spans.typical(known.limits.speed < 1)) {
      took += work.seconds;
      should += expected(work);
    }
    if (this.#drift.step(peer, took, should))
      this.consider(`${peer} takes ${Math.round((100 * took) / should)} % of the time that it was planned with`);
  }

  /** What the coordinator asks for is about to be done. */
  performing(effect: Effect): void {
    if (effect.type === 'storeEpoch') this.#began(effect.epoch, effect.plan, effect.reason);
    if (effect.type === 'send' && effect.message.type === 'start') this.#started();
    if (effect.type === 'storeCheckpoint') for (const known of this.#donors.values()) this.#keep(known);
    if (effect.type !== 'storeCommit') return;
    this.#steps = [...this.#steps, effect.record.seconds].slice(-STEPS_KEPT);
    if ((effect.record.step + 1) % LOOK_EVERY_STEPS === 0) this.#lookAtLinks();
  }

  /** For the coordinator, at once. Peers in the order they joined. */
  readonly makePlan = (peers: readonly PeerId[], caps: MemoryCaps): Result<Plan> => {
    const key = peers.map((peer) => `${peer} ${caps.get(peer) ?? ''}`).join();
    if (this.#atOnce?.key === key) return this.#atOnce.plan;
    const plan = this.#search(peers, caps);
    this.#atOnce = { key, plan };
    return plan;
  };

  /** Soon, beside everything else. */
  consider(reason: string): void {
    if (this.#options.onlyPredicts) return;
    this.#reasons.push(reason);
    this.#judging ??= this.#judgeAll().finally(() => {
      this.#judging = null;
    });
  }

  /** Nothing is judged any more. */
  close(): void {
    for (const known of this.#donors.values()) this.#keep(known);
    this.#host = null;
    this.#options.release?.();
  }

  /** For its next visit: what its spans said. */
  #keep(known: Known | undefined): void {
    if (!known || known.donor === null) return;
    const profile = this.#fresh(known);
    if (profile.ratios.length > 0) this.#options.kept?.save(known.donor, profile);
  }

  /** Resolves when nothing is being judged. */
  async settled(): Promise<void> {
    while (this.#judging !== null) await this.#judging;
  }

  #search(peers: readonly PeerId[], caps: MemoryCaps): Result<Plan> {
    const { model, batch, now } = this.#options;
    const problem = this.#problem(peers, caps);
    // Nobody of them has measured anything: they are taken for equals.
    if (problem.cluster.peers.length === 0) return fittingSplit({ model, batch, peers, caps, options: {} });
    const found = planAtOnce(problem, now);
    if (!found.ok) return found;
    this.#answers.set(found.value.plan, found.value);
    return success(found.value.plan);
  }

  #problem(
    peers: readonly PeerId[],
    caps: MemoryCaps = new Map(),
    profileOf = (known: Known) => this.#fresh(known),
  ): ClusterProblem {
    const { model, batch } = this.#options;
    const donors = peers.flatMap((peer) => {
      const known = this.#donors.get(peer);
      if (!known) return [];
      const profile = profileOf(known);
      const memoryBytes = Math.min(profile.memoryBytes, caps.get(peer) ?? Number.POSITIVE_INFINITY);
      return { peer, profile: { ...profile, memoryBytes }, limits: known.limits };
    });
    return { model, batch, cluster: clusterAtHand(donors, this.#links), shares: sharesOf(donors) };
  }

  /** What it tried is all it has only where it could not have it: the whole model may need less than any GPU has. */
  #memory({ memoryBytes }: Profile, { memoryBytes: cap }: Limits): number {
    const wanted = Math.min(this.#wholeBytes, cap ?? Number.POSITIVE_INFINITY);
    return memoryBytes >= wanted ? Math.max(memoryBytes, LEAST_MEMORY_BYTES) : memoryBytes;
  }

  /** With what its newest spans say. */
  #fresh(known: Known): PeerProfile {
    const typical = known.spans.typical(known.limits.speed < 1);
    if (typical.length > 0 && hasTimes(known.profile))
      known.profile = corrected(this.#options.model, this.#options.batch, known.profile, typical);
    return known.profile;
  }

  async #judgeAll(): Promise<void> {
    await Promise.resolve();
    while (this.#reasons.length > 0) {
      const reason = [...new Set(this.#reasons)].join('; ');
      this.#reasons = [];
      await this.#judge(reason);
    }
  }

  async #judge(reason: string): Promise<void> {
    const host = this.#host;
    if (!host) return;
    const { model, search } = this.#options;
    this.#atOnce = null;
    const { offer, plan } = host.planned();
    const problem = this.#problem(offer);
    // Where a member goes, the next plan is made at once, and judged when it has begun.
    const isLeft = plan === null || peersOf(plan).some((peer) => !offer.includes(peer));
    if (plan === null || isLeft || problem.cluster.peers.length === 0) return;
    const found = await search(problem);
    if (this.#host === null) return;
    const after = host.planned();
    if (after.plan !== plan || after.offer.join() !== offer.join()) {
      this.#reasons.push(reason);
      return;
    }
    if (!found.ok) return;
    const next = found.value;
    const costs = clusterCosts(problem);
    const nowSeconds = forecast(costs, plan).stepSeconds;
    const nextSeconds = next.predicted.stepSeconds;
    const costSeconds = this.#prepareSeconds + movingSeconds(model, costs, plan, next.plan);
    const worth = isWorth({ nowSeconds, nextSeconds, costSeconds });
    const numbers = `a step takes ${short(nextSeconds)} s instead of ${short(nowSeconds)} s, the change ${short(costSeconds)} s`;
    const verdict = worth
      ? `${reason}: with another plan ${numbers}`
      : `${reason}: the plan stays, with the best other one ${numbers}`;
    host.log('info', `${verdict}.`);
    this.#answers.set(next.plan, next);
    this.#judged.add(next.plan);
    this.#rebase(plan, nowSeconds, verdict);
    host.propose(worth ? { plan: next.plan, reason: verdict } : null);
  }

  /** From now on drift is measured against what is known now. */
  #rebase(plan: Plan, seconds: number | null, verdict: string): void {
    const { model, batch } = this.#options;
    this.#drift.clear();
    for (const peer of peersOf(plan)) {
      const known = this.#donors.get(peer);
      if (!known) continue;
      known.planned = this.#fresh(known);
      known.expected = hasTimes(known.planned) ? workSeconds(model, batch, known.planned) : null;
    }
    if (this.#planning) this.#planning = { ...this.#planning, predictedSeconds: seconds, verdict };
  }

  #began(epoch: number, plan: Plan, reason: string): void {
    for (const known of this.#donors.values()) {
      this.#fresh(known);
      known.spans.clear();
    }
    this.#atOnce = null;
    this.#steps = [];
    this.#begunMs = this.#options.now();
    const predictedSeconds = this.predicted(plan);
    const { reasons = [], idle = [] } = this.#answers.get(plan) ?? {};
    const words = [...reasons, ...idle.map((one) => `${one.peer} is left idle: ${one.reason}.`)];
    this.#planning = { epoch, reason, predictedSeconds, measuredSeconds: null, reasons: words, verdict: null };
    this.#rebase(plan, predictedSeconds, reason);
    if (!this.#judged.has(plan)) this.consider('a plan was needed at once');
    this.#host?.record(JSON.stringify({ epoch, schedule: plan.schedule, predictedSeconds, reasons: words }));
  }

  /** Seconds of a step, by what is known now; null where a member has measured nothing. */
  predicted(plan: Plan, profileOf?: (known: Known) => PeerProfile): number | null {
    const members = peersOf(plan);
    const costs = this.costs(members, profileOf);
    return costs.peers.length < members.length ? null : forecast(costs, plan).stepSeconds;
  }

  /** Of those among them who have measured anything. */
  costs(peers: readonly PeerId[], profileOf?: (known: Known) => PeerProfile): ClusterCosts {
    return clusterCosts(this.#problem(peers, new Map(), profileOf));
  }

  #started(): void {
    if (this.#begunMs === null) return;
    this.#prepareSeconds = (this.#options.now() - this.#begunMs) / 1_000;
    this.#begunMs = null;
  }

  #lookAtLinks(): void {
    const plan = this.#host?.planned().plan;
    const expected = this.#planning?.predictedSeconds ?? null;
    if (!plan || expected === null) return;
    const seconds = this.predicted(plan, ({ planned }) => planned);
    if (seconds !== null && isOff(seconds, expected))
      this.consider('links are others than those that were planned with');
  }
}

const short = (value: number): string => String(Number(value.toPrecision(3)));
