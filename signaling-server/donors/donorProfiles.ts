/**
 * What the server knows of each donor's speed, memory and links, kept fresh from the run itself: admissions, the spans
 * and links of every report, limits; and of donors that are remembered their last numbers. It answers one question, the
 * planner's problem of some donors at hand, and tells who has drifted from it.
 */
import { clusterAtHand, type LinkReports, sharesOf } from '../../swarm/autoplan/atHand.ts';
import { Drift } from '../../swarm/autoplan/drift.ts';
import { hasRoom } from '../../swarm/autoplan/linkSample.ts';
import {
  type Batch,
  hasTimes,
  type PeerProfile,
  returnedProfile,
  workSeconds,
} from '../../swarm/autoplan/peerProfile.ts';
import { corrected, SpanWindow, workDone } from '../../swarm/autoplan/spans.ts';
import type { PeerId } from '../../swarm/base.ts';
import type { Limits } from '../../swarm/limits.ts';
import type { ReportMessage } from '../../swarm/messages/messages.ts';
import type { LinkReport, Profile } from '../../swarm/messages/profile.ts';
import type { Model } from '../../swarm/model/model.ts';
import { type Plan, peers as peersOf } from '../../swarm/plan/plan.ts';
import { aloneBytes } from '../../swarm/planner/aloneBytes.ts';
import type { ClusterProblem } from '../../swarm/planner/clusterCosts.ts';
import type { MemoryCaps } from '../../swarm/planner/fit.ts';
import { type Compute, computeOf } from '../../swarm/precision.ts';

/** A GPU that passes the admission has at least so much. */
const LEAST_MEMORY_BYTES = 256 * 2 ** 20;
/** No layer takes less, since a browser takes longer to launch anything. */
const LEAST_LAYER_SECONDS = 1e-6;
/** Links that are kept of one donor: those measured last. */
const MOST_LINKS = 256;
/** Where real times differ from the admission's by more than this factor, the admission's are wrong and are scaled. */
const DISBELIEVED = 20;

/** What donors measured on their last visits. */
export interface KeptProfiles {
  profile(donor: string): PeerProfile | null;
  save(donor: string, profile: PeerProfile): void;
}

export interface DonorProfilesOptions {
  readonly model: Model;
  readonly batch: Batch;
  readonly kept?: KeptProfiles;
}

interface Known {
  /** By which it is remembered. */
  readonly donor: string | null;
  readonly compute: Compute;
  profile: PeerProfile;
  limits: Limits;
  readonly spans: SpanWindow;
  /** The one that was measured last comes last. */
  readonly links: Map<PeerId, LinkReport>;
  /** To others, with its newest step. */
  sentBytes: number;
  /** As the plan in force was made, or looked at last. */
  planned: PeerProfile;
  expected: ReturnType<typeof workSeconds> | null;
}

export class DonorProfiles {
  readonly #options: DonorProfilesOptions;
  readonly #donors = new Map<PeerId, Known>();
  readonly #drift = new Drift();
  /** What the admission tries at most: the whole model on one donor. */
  readonly #wholeBytes: number;

  constructor(options: DonorProfilesOptions) {
    this.#options = options;
    const { model, batch } = options;
    this.#wholeBytes = aloneBytes(model, batch.samples, batch.sequence);
  }

  /** As it is known by now. */
  profile(peer: PeerId): PeerProfile | null {
    const known = this.#donors.get(peer);
    return known ? this.#fresh(known) : null;
  }

  /** What each donor's links were when they were measured last. */
  get links(): LinkReports {
    return new Map([...this.#donors].map(([peer, { links }]) => [peer, [...links.values()]]));
  }

  /** A donor that is remembered starts from its last numbers. */
  measured(peer: PeerId, admitted: Profile, limits: Limits, donor: string | null, hasHalves = false): void {
    const last = (donor !== null && this.#options.kept?.profile(donor)) || null;
    const measured = { ...plausible(admitted), memoryBytes: this.#memory(admitted, limits) };
    const profile = returnedProfile(measured, last);
    const fresh = { spans: new SpanWindow(), links: new Map(), sentBytes: 0, planned: profile, expected: null };
    const compute = computeOf(this.#options.batch.compute ?? 'f32', hasHalves);
    this.#donors.set(peer, { donor, compute, profile, limits, ...fresh });
  }

  /** Whether it is one that was measured. */
  limited(peer: PeerId, limits: Limits): boolean {
    const known = this.#donors.get(peer);
    if (!known) return false;
    known.limits = limits;
    known.spans.clear();
    return true;
  }

  gone(peer: PeerId): void {
    this.#keep(this.#donors.get(peer));
    this.#donors.delete(peer);
    for (const { links } of this.#donors.values()) links.delete(peer);
  }

  /** For their next visits. */
  keepAll(): void {
    for (const known of this.#donors.values()) this.#keep(known);
  }

  /** What was measured of a link before holds until it is measured again. */
  linked(peer: PeerId, links: readonly LinkReport[]): void {
    const known = this.#donors.get(peer)?.links;
    if (!known) return;
    for (const link of links.filter((one) => this.#donors.has(one.peer))) {
      const last = known.get(link.peer);
      const roundTripMs = link.roundTripMs ?? last?.roundTripMs ?? null;
      known.delete(link.peer);
      known.set(link.peer, {
        ...link,
        roundTripMs,
        bytesPerSecond: link.bytesPerSecond ?? last?.bytesPerSecond ?? null,
      });
    }
    for (const peer of known.keys()) {
      if (known.size <= MOST_LINKS) break;
      known.delete(peer);
    }
  }

  hasMeasured(peer: PeerId, other: PeerId): boolean {
    return this.#donors.get(peer)?.links.has(other) ?? false;
  }

  sent(peer: PeerId, bytes: number): void {
    const known = this.#donors.get(peer);
    if (known) known.sentBytes = bytes;
  }

  /** Whether it may send what no step needs: it has joined, and its caps are not near. */
  hasRoom(peer: PeerId, stepSeconds: number): boolean {
    const known = this.#donors.get(peer);
    return known !== undefined && hasRoom(known.limits, stepSeconds > 0 ? known.sentBytes / stepSeconds : 0);
  }

  /** Spans under the plan in force; where the donor has drifted with them, how its times compare with those planned with. */
  worked(peer: PeerId, plan: Plan, spans: ReportMessage['spans']): number | null {
    const known = this.#donors.get(peer);
    if (!known) return null;
    known.spans.add(workDone(plan, peer, spans));
    const { expected } = known;
    if (expected === null) return null;
    let [took, should] = [0, 0];
    for (const work of known.spans.typical(known.limits.speed < 1)) {
      took += work.seconds;
      should += expected(work);
    }
    if (!this.#drift.step(peer, took, should)) return null;
    const factor = took / should;
    if (factor > DISBELIEVED || factor < 1 / DISBELIEVED) known.profile = scaled(known.profile, factor);
    return factor;
  }

  /** A new plan: other work, other neighbours. */
  begin(): void {
    for (const known of this.#donors.values()) {
      this.#fresh(known);
      known.spans.clear();
    }
  }

  /** From now on drift is measured against what is known now. */
  rebase(plan: Plan): void {
    const { model, batch } = this.#options;
    this.#drift.clear();
    for (const peer of peersOf(plan)) {
      const known = this.#donors.get(peer);
      if (!known) continue;
      known.planned = this.#fresh(known);
      known.expected = hasTimes(known.planned) ? workSeconds(model, batch, known.planned) : null;
    }
  }

  /** Those among them who measured anything. `as`: with their profiles of now, or of when the plan was made. */
  problem(peers: readonly PeerId[], caps: MemoryCaps = new Map(), as: 'now' | 'planned' = 'now'): ClusterProblem {
    const { model, batch } = this.#options;
    const known = peers.flatMap((peer) => {
      const one = this.#donors.get(peer);
      return one ? [{ peer, ...one, profile: as === 'planned' ? one.planned : this.#fresh(one) }] : [];
    });
    const donors = known.map(({ peer, profile, limits }) => {
      const memoryBytes = Math.min(profile.memoryBytes, caps.get(peer) ?? Number.POSITIVE_INFINITY);
      return { peer, profile: { ...profile, memoryBytes }, limits };
    });
    const links = new Map(known.map(({ peer, links: reported }) => [peer, [...reported.values()]]));
    const computes = new Map(known.map(({ peer, compute }) => [peer, compute]));
    return { model, batch, cluster: clusterAtHand(donors, links), shares: sharesOf(donors), computes };
  }

  #keep(known: Known | undefined): void {
    if (!known || known.donor === null) return;
    const profile = this.#fresh(known);
    if (profile.ratios.length > 0) this.#options.kept?.save(known.donor, profile);
  }

  /**
   * The admission tries no more memory than the whole model needs, or the donor's limit allows. A donor that got all of it
   * may have more: at least what every GPU has.
   */
  #memory({ memoryBytes }: Profile, { memoryBytes: cap }: Limits): number {
    const wanted = Math.min(this.#wholeBytes, cap ?? Number.POSITIVE_INFINITY);
    return memoryBytes >= wanted ? Math.max(memoryBytes, LEAST_MEMORY_BYTES) : memoryBytes;
  }

  /** Its profile, corrected by its newest spans. */
  #fresh(known: Known): PeerProfile {
    const typical = known.spans.typical(known.limits.speed < 1);
    if (typical.length > 0 && hasTimes(known.profile))
      known.profile = corrected(this.#options.model, this.#options.batch, known.profile, typical);
    return known.profile;
  }
}

/** A time of 0 would draw all work to this donor, and no span could be compared with it. */
const plausible = (admitted: Profile): Profile => ({
  ...admitted,
  layers: admitted.layers.map(({ samples, forwardSeconds, backwardSeconds }) => ({
    samples,
    forwardSeconds: Math.max(LEAST_LAYER_SECONDS, forwardSeconds),
    backwardSeconds: Math.max(LEAST_LAYER_SECONDS, backwardSeconds),
  })),
});

/** The same donor, as if it had measured `factor` times as long at its admission. */
const scaled = ({ layers, ...profile }: PeerProfile, factor: number): PeerProfile => ({
  ...profile,
  layers: layers.map(({ samples, forwardSeconds, backwardSeconds }) => ({
    samples,
    forwardSeconds: Math.max(LEAST_LAYER_SECONDS, factor * forwardSeconds),
    backwardSeconds: Math.max(LEAST_LAYER_SECONDS, factor * backwardSeconds),
  })),
});
