/**
 * What is known of each donor's speed, memory and links, kept fresh from the run itself: its admission, the spans and
 * links of its reports, its limits. It answers one question, the planner's problem of some donors at hand, and tells who
 * has drifted from what was planned with.
 */

import { given, type PeerId } from '../base.ts';
import type { Limits } from '../limits.ts';
import { type BufferLimit, type BufferLimits, largestOfRun, neededOf, takes } from '../memory/bufferLimits.ts';
import type { LinkReport, Profile } from '../messages/profile.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import type { Plan } from '../plan/plan.ts';
import type { Cluster } from '../planner/cluster.ts';
import type { ReplicaWish } from '../planner/clusterCosts.ts';
import { bufferLimitOf, type ClusterProblem } from '../planner/clusterCosts.ts';
import { aloneBytes } from '../planner/equalSplit.ts';
import type { MemoryCaps } from '../planner/fit.ts';
import { believedSpeed, type MainMemorySpeed } from '../planner/mainMemory.ts';
import { type Compute, computeOf } from '../precision.ts';
import type { ReportedSpan } from '../timeline/measured.ts';
import { clusterAtHand, sharesOf } from './atHand.ts';
import { doubted, isSeen, NOT_SEEN, type Seen, slowed } from './doubt.ts';
import { type Drift, drifted, hasDrifted } from './drift.ts';
import type { LinksTried } from './linkSample.ts';
import { type Batch, hasTimes, type PeerProfile, returnedProfile, workSeconds } from './peerProfile.ts';
import { corrected, type NewestSpans, typicalWork, withSpans, workDone } from './spans.ts';
import { NEW_STANDING, type Standing } from './standing.ts';
import type { PlanWishes } from './wishes.ts';

/** A GPU that passes the admission has at least so much. */
const LEAST_MEMORY_BYTES = 256 * 2 ** 20;
/** No layer takes less, since a browser takes longer to launch anything. */
const LEAST_LAYER_SECONDS = 1e-6;
/** A longer way is a busy machine's, or a donor's that dawdles. */
const MOST_SERVER_SECONDS = 0.5;
/** Links that are kept of one donor: those measured last. */
const MOST_LINKS = 256;
/** Where real times differ from the admission's by more than this factor, the admission's are wrong and are scaled. */
const DISBELIEVED = 20;

/** What a run is planned by: plain data. */
export interface PlanningConfig {
  /** The run's config.json. */
  readonly model: Readonly<Record<string, unknown>>;
  readonly batch: Batch;
  readonly wishes: PlanWishes;
}

export interface KnownDonor extends LinksTried, Seen {
  /** By which it is remembered; null: it is not. */
  readonly rememberedAs: string | null;
  readonly joinedMs: number;
  /** An opaque name of its network. */
  readonly address: string;
  /** An opaque name of the line that others of the same name share with it; null: it has one of its own. */
  readonly line: string | null;
  /** With so many of its line, itself among them, it was in a plan as its links were measured last. */
  readonly measuredWith: number;
  /** One way to the server; 0 where that is not known. */
  readonly serverSeconds: number;
  readonly compute: Compute;
  /** As it was last corrected; what its newest spans say comes on top. */
  readonly profile: PeerProfile;
  readonly limits: Limits;
  readonly spans: NewestSpans;
  /** The one that was measured last comes last. */
  readonly links: readonly LinkReport[];
  /** What all of them carried at once, as it says; null: it has not said it yet. */
  readonly uploadBytesPerSecond: number | null;
  /** To others, with its newest step. */
  readonly sentBytes: number;
  /** Its profile as the plan in force was made, or looked at last; null: it is in no plan. */
  readonly planned: PeerProfile | null;
  readonly drift: Drift | null;
  readonly standing: Standing;
  /** How long it is expected to stay, from its coming on; absent: nothing is known. */
  readonly sessionSeconds?: number;
  /** It was taken for slow once, to see whether it is. */
  readonly wasTried: boolean;
}

/** A donor that was admitted. */
export interface Admitted {
  readonly peer: PeerId;
  readonly limits: Limits;
  readonly profile: Profile;
  readonly rememberedAs: string | null;
  /** What its last visit left. */
  readonly remembered: PeerProfile | null;
  readonly hasHalves: boolean;
  /** An opaque name of its network. */
  readonly address: string;
  /** An opaque name of its line, where it may share one with others; absent: it has one of its own. */
  readonly line?: string;
  /** This server opened it itself. */
  readonly isOwn: boolean;
  /** The way from the server to it and back; absent or null: not known. */
  readonly roundTripMs?: number | null;
  /** Committed steps that it had a part in, of which a server before this one has told; absent: none. */
  readonly stepsSeen?: number;
  /** How long it is expected to stay; absent: nothing is known. */
  readonly sessionSeconds?: number;
}

/** `joinedMs`: absent: long ago. */
export function knownDonor(config: PlanningConfig, admitted: Admitted, joinedMs = 0): KnownDonor {
  const { peer, limits, rememberedAs, remembered, hasHalves, address, line = null, isOwn } = admitted;
  const measured = { ...plausible(admitted.profile), memoryBytes: memoryOf(config, admitted) };
  return {
    ...{ peer, limits, rememberedAs, joinedMs, address, line, measuredWith: 1, isOwn },
    serverSeconds: Math.min(MOST_SERVER_SECONDS, (admitted.roundTripMs ?? 0) / 2_000),
    ...NOT_SEEN,
    stepsSeen: admitted.stepsSeen ?? 0,
    ...given({ sessionSeconds: admitted.sessionSeconds }),
    compute: computeOf(config.batch.compute ?? 'f32', hasHalves),
    profile: returnedProfile(measured, remembered),
    ...{ spans: [], links: [], uploadBytesPerSecond: null, sentBytes: 0, planned: null, drift: null },
    ...{ tried: [], probe: null, standing: NEW_STANDING, wasTried: false },
  };
}

/**
 * The admission tries no more memory than the whole model needs, or the donor's limit allows. A donor that got all of it
 * may have more: at least what every GPU has.
 */
function memoryOf(config: PlanningConfig, { profile: { memoryBytes }, limits }: Admitted): number {
  const wanted = Math.min(wholeBytesOf(config), limits.memoryBytes ?? Infinity);
  return memoryBytes >= wanted ? Math.max(memoryBytes, LEAST_MEMORY_BYTES) : memoryBytes;
}

/** Its profile, corrected by its newest spans. */
export function profileNow(config: PlanningConfig, { profile, spans, limits }: KnownDonor): PeerProfile {
  const typical = typicalWork(spans, limits.speed < 1);
  if (typical.length === 0 || !hasTimes(profile)) return profile;
  return corrected(acceptedModel(config), config.batch, profile, typical);
}

/** Other work, other neighbours or another share: its spans begin anew. */
export const begunAnew = (config: PlanningConfig, donor: KnownDonor): KnownDonor =>
  donor.spans.length === 0 ? donor : { ...donor, profile: profileNow(config, donor), spans: [] };

/** From now on its drift is measured against what is known now. */
export const plannedNow = (config: PlanningConfig, donor: KnownDonor): KnownDonor => ({
  ...donor,
  planned: profileNow(config, donor),
  drift: null,
});

/** What was measured of a link before holds until it is measured again. */
export function withLinks(donor: KnownDonor, reports: readonly LinkReport[]): KnownDonor {
  const links = new Map(donor.links.map((link) => [link.peer, link]));
  for (const report of reports) {
    const last = links.get(report.peer);
    links.delete(report.peer);
    const roundTripMs = report.roundTripMs ?? last?.roundTripMs ?? null;
    const bytesPerSecond = report.bytesPerSecond ?? last?.bytesPerSecond ?? null;
    const heard = report.receivedBytesPerSecond ?? last?.receivedBytesPerSecond;
    const measured = { ...report, roundTripMs, bytesPerSecond };
    links.set(report.peer, heard === undefined ? measured : { ...measured, receivedBytesPerSecond: heard });
  }
  return { ...donor, links: [...links.values()].slice(-MOST_LINKS) };
}

/** Spans under the plan in force; where the donor has drifted with them, how its times compare with those planned with. */
export function withWork(
  config: PlanningConfig,
  before: KnownDonor,
  plan: Plan,
  reported: readonly ReportedSpan[],
): readonly [donor: KnownDonor, drift: number | null] {
  const spans = withSpans(before.spans, workDone(plan, before.peer, reported));
  const { planned, limits } = before;
  if (planned === null || !hasTimes(planned)) return [{ ...before, spans }, null];
  const expected = expectedSeconds(config, planned);
  let [took, should] = [0, 0];
  for (const work of typicalWork(spans, limits.speed < 1)) {
    took += work.seconds;
    should += expected(work);
  }
  const donor = { ...before, spans, drift: drifted(before.drift, took, should) };
  if (!hasDrifted(donor.drift)) return [donor, null];
  const factor = took / should;
  const isBelieved = factor <= DISBELIEVED && factor >= 1 / DISBELIEVED;
  return [isBelieved ? donor : { ...donor, profile: scaled(donor.profile, factor) }, factor];
}

/** The planner's question, but for the model, which is functions: plain data. */
export interface SearchProblem {
  readonly cluster: Cluster;
  readonly shares: Readonly<Record<string, number>>;
  readonly computes: Readonly<Record<string, Compute>>;
  readonly serverSeconds: Readonly<Record<string, number>>;
  /** Of those who measured it. */
  readonly mainMemory: Readonly<Record<string, MainMemorySpeed>>;
  readonly inForce?: Plan;
  readonly replicas?: ReplicaWish;
}

/**
 * Of those among them who measured anything. `as`: with their profiles of now, or of when the plan was made, or of now and
 * with doubt in who was not seen at work, as plans are made.
 */
export function searchProblem(
  config: PlanningConfig,
  donors: readonly KnownDonor[],
  peers: readonly PeerId[],
  caps: MemoryCaps = new Map(),
  as: 'now' | 'planned' | 'doubted' = 'doubted',
): SearchProblem {
  const byPeer = new Map(donors.map((donor) => [donor.peer, donor]));
  const known = peers.flatMap((peer) => byPeer.get(peer) ?? []);
  const atHand = known.map((donor) => {
    const profile = (as === 'planned' ? donor.planned : null) ?? profileNow(config, donor);
    const memoryBytes = Math.min(profile.memoryBytes, caps.get(donor.peer) ?? Infinity);
    const { peer, limits, isOwn } = donor;
    return { peer, limits, profile: { ...profile, memoryBytes }, ...(config.batch.ends && { isOwn }) };
  });
  const cluster = clusterAtHand(atHand, new Map(known.map((donor) => [donor.peer, donor])));
  const slowdowns = new Map<string, number>(known.map(({ peer, slowdown }) => [peer, slowdown]));
  const clocked = cluster.peers.map((peer) => {
    const factor = slowdowns.get(peer.id) ?? 1;
    return factor === 1 || !peer.measured ? peer : { ...peer, measured: slowed(peer.measured, factor) };
  });
  const seen = new Set<string>(donors.filter((donor) => isSeen(donor)).map(({ peer }) => peer));
  return {
    cluster: { ...cluster, peers: as === 'doubted' ? doubted(clocked, seen, config.batch.samples) : clocked },
    shares: Object.fromEntries(sharesOf(atHand)),
    computes: Object.fromEntries(known.map(({ peer, compute }) => [peer, compute])),
    serverSeconds: Object.fromEntries(known.map(({ peer, serverSeconds }) => [peer, serverSeconds])),
    mainMemory: Object.fromEntries(
      known.flatMap(({ peer, profile: { mainMemory } }) => (mainMemory ? [[peer, believedSpeed(mainMemory)]] : [])),
    ),
  };
}

export const clusterProblem = (
  config: Pick<PlanningConfig, 'model' | 'batch'>,
  { cluster, shares, computes, serverSeconds, mainMemory, inForce, replicas }: SearchProblem,
): ClusterProblem => ({
  model: acceptedModel(config),
  batch: config.batch,
  cluster,
  shares: new Map(Object.entries(shares)),
  computes: new Map(Object.entries(computes)),
  serverSeconds: new Map(Object.entries(serverSeconds)),
  mainMemory: new Map(Object.entries(mainMemory)),
  ...(inForce && { inForce }),
  ...(replicas && { replicas }),
});

/** What follows from values that never change is worked out once for each of them. */
const expectations = new WeakMap<PeerProfile, ReturnType<typeof workSeconds>>();

const wholeBytes = new WeakMap<PlanningConfig, number>();

/** Of all that a run has, on one donor. */
function wholeBytesOf(config: PlanningConfig): number {
  const { samples, sequence } = config.batch;
  const bytes = wholeBytes.get(config) ?? aloneBytes(acceptedModel(config), samples, sequence);
  wholeBytes.set(config, bytes);
  return bytes;
}

const largestBuffer = new WeakMap<PlanningConfig, BufferLimit>();

/** Of donors whose GPUs do not take every buffer that this run may have. */
export function bufferLimitsOf(config: PlanningConfig, donors: readonly KnownDonor[]): BufferLimits {
  const most = largestBuffer.get(config) ?? neededOf(largestOfRun(acceptedModel(config), config.batch));
  largestBuffer.set(config, most);
  const limits = donors.map(({ peer, profile }) => [peer, bufferLimitOf(profile)] as const);
  return new Map(limits.filter(([, limit]) => !takes(limit, most)));
}

function expectedSeconds(config: PlanningConfig, profile: PeerProfile): ReturnType<typeof workSeconds> {
  const known = expectations.get(profile) ?? workSeconds(acceptedModel(config), config.batch, profile);
  expectations.set(profile, known);
  return known;
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
