/**
 * The plan of the best predicted step time, for whoever is at hand (`--schedule auto`). Its one idea: two clocks. Where a
 * plan is needed at once (the run begins, a member is lost) it is searched for at once and shortly; everything else (a
 * newcomer, a drift, other limits) is judged beside the training, and what is worth the change is proposed to the
 * coordinator, which decides when.
 */
import type { LinkReports } from '../../swarm/autoplan/atHand.ts';
import { isOff } from '../../swarm/autoplan/drift.ts';
import { LinkSample } from '../../swarm/autoplan/linkSample.ts';
import type { PeerProfile } from '../../swarm/autoplan/peerProfile.ts';
import { type PeerId, peerId, type Result, rounded, seededRandom, success } from '../../swarm/base.ts';
import type { Effect, PlanAnswer } from '../../swarm/coordinator/events.ts';
import type { Limits } from '../../swarm/limits.ts';
import type { PeerMessage, ProbedMessage, ReportMessage } from '../../swarm/messages/messages.ts';
import type { Profile } from '../../swarm/messages/profile.ts';
import type { Snapshot } from '../../swarm/messages/snapshot.ts';
import { type Plan, peers as peersOf } from '../../swarm/plan/plan.ts';
import { type ClusterCosts, clusterCosts } from '../../swarm/planner/clusterCosts.ts';
import type { ClusterPlan } from '../../swarm/planner/clusterPlan.ts';
import { donorCapacity } from '../../swarm/planner/equalSplit.ts';
import { fittingSplit, type MemoryCaps } from '../../swarm/planner/fit.ts';
import { forecast } from '../../swarm/planner/forecast.ts';
import { DonorProfiles, type DonorProfilesOptions } from '../donors/donorProfiles.ts';
import { Pace } from './pace.ts';
import { planAtOnce } from './planSearch.ts';
import type { PlanSearch } from './planThread.ts';
import { judge } from './verdict.ts';
import { Voices } from './voices.ts';

/** Every so many steps the links are looked at. */
const LOOK_EVERY_STEPS = 10;
/** What is said of links has one voice: each has two ends, and many may speak at once. */
const LINKS = peerId('links');

export interface AutoPlannerOptions extends DonorProfilesOptions {
  /** Milliseconds. */
  readonly now: () => number;
  /** At length, beside everything else. */
  readonly search: PlanSearch;
  /** What the search holds is not needed any more. */
  readonly release?: () => void;
  /** It keeps profiles and predicts, but changes no plan. */
  readonly onlyPredicts?: boolean;
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
  propose(answer: PlanAnswer): void;
  /** These two measure the link between them, which no plan uses. */
  probe(one: PeerId, other: PeerId): void;
  /** The numbers behind the plan in force, to be kept. */
  record(detail: string): void;
  log(level: 'info' | 'debug', text: string): void;
  failed(error: unknown): void;
}

interface Cause {
  readonly reason: string;
  readonly by: PeerId | null;
}

type Planning = NonNullable<Snapshot['planning']>;

export class AutoPlanner {
  readonly #options: AutoPlannerOptions;
  readonly #profiles: DonorProfiles;
  /** Why each plan that came out of a search is as it is. */
  readonly #answers = new WeakMap<Plan, ClusterPlan>();
  /** Plans that were searched for at length. */
  readonly #judged = new WeakSet<Plan>();
  #host: PlannerHost | null = null;
  /** The answer of a search at once holds until the donors, or what is known of them, are others. */
  #atOnce: { readonly key: string; readonly plan: Result<Plan> } | null = null;
  readonly #voices = new Voices();
  readonly #sample = new LinkSample(seededRandom(1));
  /** Why to look for a better plan, and whose words say so; null: something that happened. */
  #causes: Cause[] = [];
  /** Whose words are behind the plan that was proposed last. */
  #proposed: { readonly plan: Plan; readonly by: readonly PeerId[] } | null = null;
  #judging: Promise<void> | null = null;
  #planning: Planning | null = null;
  readonly #pace = new Pace();

  constructor(options: AutoPlannerOptions) {
    this.#options = options;
    this.#profiles = new DonorProfiles(options);
  }

  attach(host: PlannerHost): void {
    this.#host = host;
  }

  /** Nothing is judged any more. */
  close(): void {
    this.#profiles.keepAll();
    this.#host = null;
    this.#options.release?.();
  }

  /** For the operator; null before the first plan. */
  get planning(): Planning | null {
    return this.#planning && { ...this.#planning, measuredSeconds: this.#pace.stepSeconds };
  }

  /** As it is known by now. */
  profile(peer: PeerId): PeerProfile | null {
    return this.#profiles.profile(peer);
  }

  /** Those that a probe measured among them. */
  get links(): LinkReports {
    return this.#profiles.links;
  }

  /** Before the coordinator hears of it. `donor`: by which it is remembered. */
  measured(peer: PeerId, profile: Profile, limits: Limits, donor: string | null, hasHalves = false): void {
    this.#profiles.measured(peer, profile, limits, donor, hasHalves);
    this.#atOnce = null;
    this.consider(`${peer} joins`);
  }

  /** Before the coordinator hears of it. */
  heard(peer: PeerId, message: PeerMessage): void {
    const { type } = message;
    const late = this.#voices.late(peer, this.#options.now());
    if (late !== null) this.consider(late, peer);
    if (type === 'limits' && this.#profiles.limited(peer, message.limits)) this.#said(peer, `${peer} has other limits`);
    if (type === 'report') this.#reported(peer, message);
    if (type === 'probed') this.#probed(peer, message);
    if (type === 'resume') this.#said(peer, `${peer} said ${type}`);
    if (type === 'pause' || type === 'leave') this.consider(`${peer} said ${type}`);
  }

  /** A donor's own word, which counts now or when it is listened to again. */
  #said(peer: PeerId, reason: string): void {
    if (this.#voices.says(peer, reason, this.#options.now())) this.consider(reason, peer);
  }

  #reported(peer: PeerId, { epoch, spans, links = [], bytesDirect, bytesRelayed }: ReportMessage): void {
    this.#profiles.sent(peer, bytesDirect + bytesRelayed);
    this.#profiles.linked(peer, links);
    for (const link of links) this.#sample.measured(peer, link.peer, this.#options.now());
    const plan = this.#host?.planned().plan;
    if (!plan || epoch !== this.#planning?.epoch) return;
    const drifted = this.#profiles.worked(peer, plan, spans);
    if (drifted !== null) this.#said(peer, `${peer} takes ${share(drifted)} the time that it was planned with`);
  }

  #probed(peer: PeerId, { peer: other, roundTripMs, bytesPerSecond }: ProbedMessage): void {
    if (!this.#sample.isAsked(peer, other)) return;
    this.#profiles.linked(peer, [{ peer: other, route: 'direct', roundTripMs, bytesPerSecond }]);
    this.#host?.log(
      'debug',
      `${peer} measured its link to ${other}: ${roundTripMs} ms, ${bytesPerSecond} bytes a second`,
    );
    // Until both have said it, it is no better than it was taken for.
    if (this.#profiles.hasMeasured(other, peer))
      this.#said(peer, `${peer} and ${other} measured the link between them`);
  }

  /** Before the coordinator hears of it. */
  gone(peer: PeerId): void {
    this.#profiles.gone(peer);
    this.#sample.gone(peer);
    this.#voices.gone(peer);
    this.#atOnce = null;
    this.consider(`${peer} is gone`);
  }

  /** What the coordinator asks for is about to be done. */
  performing(effect: Effect): void {
    if (effect.type === 'storeEpoch') this.#began(effect.epoch, effect.plan, effect.reason);
    if (effect.type === 'send' && effect.message.type === 'start') this.#pace.started(this.#options.now());
    if (effect.type === 'storeCheckpoint') this.#profiles.keepAll();
    if (effect.type !== 'storeCommit') return;
    this.#pace.took(effect.record.seconds);
    this.#voices.took(this.#pace.stepSeconds ?? 0, this.#pace.steps, this.#options.now());
    if ((effect.record.step + 1) % LOOK_EVERY_STEPS === 0) this.#lookAtLinks();
    this.#sampleLinks();
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
  consider(reason: string, by: PeerId | null = null): void {
    if (this.#options.onlyPredicts) return;
    this.#causes.push({ reason, by });
    this.#judging ??= this.#judgeAll()
      .catch((error: unknown) => this.#host?.failed(error))
      .finally(() => {
        this.#judging = null;
      });
  }

  /** Resolves when nothing is being judged. */
  async settled(): Promise<void> {
    while (this.#judging !== null) await this.#judging;
  }

  /** Seconds of a step, by what is known now (or was, when the plan was made); null where a member measured nothing. */
  predicted(plan: Plan, as: 'now' | 'planned' = 'now'): number | null {
    const members = peersOf(plan);
    const costs = clusterCosts(this.#profiles.problem(members, new Map(), as));
    return costs.peers.length < members.length ? null : forecast(costs, plan).stepSeconds;
  }

  /** Of those among them who have measured anything. */
  costs(peers: readonly PeerId[]): ClusterCosts {
    return clusterCosts(this.#profiles.problem(peers));
  }

  #search(peers: readonly PeerId[], caps: MemoryCaps): Result<Plan> {
    const { model, batch, now } = this.#options;
    const problem = this.#profiles.problem(peers, caps);
    // Nobody of them has measured anything: they are taken for equals.
    if (problem.cluster.peers.length === 0)
      return fittingSplit({ model, batch, peers: peers.slice(0, donorCapacity(model)), caps, options: {} });
    const found = planAtOnce(problem, now);
    if (!found.ok) return found;
    this.#answers.set(found.value.plan, found.value);
    return success(found.value.plan);
  }

  async #judgeAll(): Promise<void> {
    await Promise.resolve(); // the coordinator hears of the same thing first
    while (this.#causes.length > 0) {
      const causes = this.#causes;
      this.#causes = [];
      await this.#judge(causes);
    }
  }

  async #judge(causes: readonly Cause[]): Promise<void> {
    const host = this.#host;
    if (!host) return;
    this.#atOnce = null;
    const { offer, plan } = host.planned();
    const problem = this.#profiles.problem(offer);
    // Where a member goes, the next plan is made at once, and judged when it has begun.
    const isLeft = plan === null || peersOf(plan).some((peer) => !offer.includes(peer));
    if (plan === null || isLeft || problem.cluster.peers.length === 0) return;
    const found = await this.#options.search(problem);
    if (this.#host === null) return;
    const after = host.planned();
    if (after.plan !== plan || after.offer.join() !== offer.join()) {
      this.#causes.push(...causes);
      return;
    }
    if (found.ok) this.#decide(host, causes, plan, clusterCosts(problem), found.value);
  }

  #decide(host: PlannerHost, causes: readonly Cause[], plan: Plan, costs: ClusterCosts, next: ClusterPlan): void {
    const reason = [...new Set(causes.map((cause) => cause.reason))].join('; ');
    const { isWorth, sentence: verdict, predictedSeconds } = judge(costs, plan, next, this.#pace, reason);
    const by = speakersOf(causes);
    host.log('info', `${verdict}.`);
    this.#answers.set(next.plan, next);
    this.#judged.add(next.plan);
    this.#profiles.rebase(plan);
    if (this.#planning) this.#planning = { ...this.#planning, predictedSeconds, verdict };
    if (isWorth) this.#proposed = { plan: next.plan, by };
    else this.#voices.inVain(by, this.#options.now());
    host.propose(isWorth ? { answer: 'plan', plan: next.plan, reason: verdict } : { answer: 'stays' });
  }

  #began(epoch: number, plan: Plan, reason: string): void {
    this.#profiles.begin();
    this.#profiles.rebase(plan);
    this.#atOnce = null;
    const nowMs = this.#options.now();
    this.#voices.began(this.#proposed?.plan === plan ? this.#proposed.by : [], this.#pace.began(nowMs), nowMs);
    const predictedSeconds = this.predicted(plan);
    const { reasons: why = [], idle = [] } = this.#answers.get(plan) ?? {};
    const reasons = [...why, ...idle.map(({ peer, reason }) => ({ peer, text: `left idle: ${reason}.` }))];
    const verdict = this.#planning?.verdict ?? null;
    this.#planning = { epoch, reason, predictedSeconds, measuredSeconds: null, reasons, verdict };
    if (!this.#judged.has(plan)) this.consider('a plan was needed at once');
    this.#host?.record(JSON.stringify({ epoch, schedule: plan.schedule, predictedSeconds, reasons }));
  }

  /** Where two steps meet, and only where there are steps: for anything else links need not be known. */
  #sampleLinks(): void {
    const nowMs = this.#options.now();
    const host = this.#host;
    if (host === null || this.#options.onlyPredicts || !this.#sample.isDue(nowMs)) return;
    const { offer, plan } = host.planned();
    const stepSeconds = this.#pace.stepSeconds ?? 0;
    const able = offer.filter((peer) => this.#profiles.hasRoom(peer, stepSeconds));
    const pair = this.#sample.next(able, new Set(plan ? peersOf(plan) : []), nowMs);
    if (pair !== null) host.probe(...pair);
  }

  #lookAtLinks(): void {
    const plan = this.#host?.planned().plan;
    const expected = this.#planning?.predictedSeconds ?? null;
    if (!plan || expected === null) return;
    const seconds = this.predicted(plan, 'planned');
    if (seconds !== null && isOff(seconds, expected))
      this.#said(LINKS, 'links are others than those that were planned with');
  }
}

const speakersOf = (causes: readonly Cause[]): PeerId[] => [...new Set(causes.flatMap(({ by }) => by ?? []))];

/** `134 % of`, `23 times`. */
const share = (ratio: number): string =>
  ratio < 10 ? `${Math.round(100 * ratio)} % of` : `${rounded(ratio, 3)} times`;
