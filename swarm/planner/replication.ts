/**
 * How many replicas a plan gets: as many as a run wishes for, as far as its donors' memory allows; and unless a person said
 * how many, only while a step is predicted to take at most a tenth longer. Where there are fewer, a sentence says what a
 * loss costs then.
 */
import { type PeerId, rounded } from '../base.ts';
import { type BufferLimits, largestShardBytes } from '../memory/bufferLimits.ts';
import type { BufferSpec } from '../memory/bufferSpec.ts';
import { stageBuffers, stagesOfPeer } from '../memory/memory.ts';
import { shardBuffers } from '../memory/shardMemory.ts';
import type { Model } from '../model/model.ts';
import { type BlockState, holders, type Plan, peers as peersOf } from '../plan/plan.ts';
import { COMPUTE_PRECISIONS, type Compute } from '../precision.ts';
import { bytesText, counted, secondsText } from '../quantityText.ts';
import { build } from '../schedule/lower.ts';
import { planSlots } from '../schedule/slots.ts';
import type { ClusterCosts, ClusterProblem } from './clusterCosts.ts';
import { memoryOf, memoryWith } from './draft.ts';
import type { MemoryCaps } from './fit.ts';
import { type Forecast, forecast } from './forecast.ts';
import { type HostMemory, hostRoom } from './mainMemory.ts';
import type { Reason } from './reason.ts';
import { type Placing, type ReplicaWish, withinBuffers, withoutReplicas, withReplicas } from './replicas.ts';
import { uploadReasons, withUploaders } from './uploaders.ts';

/** Copies of each shard beside its primary, where nobody says how many. */
const DEFAULT_REPLICAS = 1;
/** A step may take so much longer for copies that nobody asked for. */
const MOST_GROWTH = 0.1;
/** Less than one network. */
const BOTH_NEW = 0.5;
/** Bytes a second over a link without bounds: a copy costs something there too. */
const MOST_RATE = 1e10;
/** Spares that are looked at: those who are here longest. */
const MOST_SPARES = 32;

/** `asked`: by a person; undefined: nobody did. */
export const replicaWish = (
  asked: number | undefined,
  known: Partial<Pick<ReplicaWish, 'sites' | 'before'>> = {},
): ReplicaWish => ({
  count: asked ?? DEFAULT_REPLICAS,
  isAsked: asked !== undefined,
  ...{ sites: {}, before: null, ...known },
});

export interface Replicated {
  readonly plan: Plan;
  /** What its replicas cost, and where there are fewer than wished for, what a loss costs then. */
  readonly reasons: readonly Reason[];
}

/** Two tabs of one browser end together; two donors of one network may. */
function nearness(sites: ReplicaWish['sites']): Placing['nearness'] {
  return (one, other) => {
    const [a, b] = [sites[one], sites[other]];
    if (a === undefined || b === undefined) return 0;
    if (a.browser !== null && a.browser === b.browser) return 2;
    return a.network !== null && a.network === b.network ? 1 : 0;
  };
}

/** Of those who are equally near a newcomer goes as soon as another one may: together. */
function nearnessOfCopies(sites: ReplicaWish['sites']): Placing['nearness'] {
  const near = nearness(sites);
  return (one, other) => near(one, other) + (sites[one]?.isNew && sites[other]?.isNew ? BOTH_NEW : 0);
}

function candidatesOf(plan: Plan, offer: readonly PeerId[]): PeerId[] {
  const members = new Set(peersOf(plan));
  const spares = offer.filter((peer) => !members.has(peer)).slice(0, MOST_SPARES);
  return [...offer.filter((peer) => members.has(peer)), ...spares];
}

interface CappedRun {
  readonly model: Model;
  readonly batch: ClusterProblem['batch'];
  readonly caps: MemoryCaps;
  readonly hosts?: HostMemory;
  /** Absent: every GPU takes any buffer. */
  readonly buffers?: BufferLimits;
  /** Everyone who may keep something, in the order they joined. */
  readonly offer: readonly PeerId[];
}

/** By the memory that donors give alone. */
export function replicatedWithin(run: CappedRun, chosen: Plan, wish: ReplicaWish): Replicated {
  const { model, buffers } = run;
  const bare = withoutReplicas(chosen, withinBuffers(model, buffers));
  const candidates = candidatesOf(bare, run.offer);
  const plan = withReplicas({
    ...{ model, islands: run.batch.islands, buffers, plan: bare, count: wish.count, candidates, before: wish.before },
    roomBytes: roomWithin(run, bare),
    byteCost: () => 1,
    nearness: nearnessOfCopies(wish.sites),
  });
  return { plan, reasons: shortfall(plan, wish.count, candidates.length, null) };
}

function roomWithin(
  { model, batch, caps, hosts = new Map(), buffers = new Map() }: CappedRun,
  plan: Plan,
): Placing['roomBytes'] {
  const known = holders(model, plan);
  const either = batch.compute === 'f16' ? COMPUTE_PRECISIONS : (['f32'] as const);
  const inFlight = planSlots(plan, build(plan));
  const bytesOf = (specs: readonly BufferSpec[]): number => specs.reduce((sum, { bytes }) => sum + bytes, 0);
  const workBytes = (peer: PeerId, compute: Compute): number => {
    const stages = stagesOfPeer(plan, peer, batch.sequence, batch.wire, compute, inFlight);
    return [...stages.values()].reduce((sum, size) => sum + bytesOf(stageBuffers(model, size)), 0);
  };
  const beside = new Map<string, number>();
  return (peer, state) => {
    const inHost = Math.min(
      hostRoom({ ...plan, state }, peer, hosts.get(peer)),
      bufferRoom(model, state, buffers.get(peer)?.bufferBytes),
    );
    const cap = caps.get(peer);
    if (cap === undefined) return inHost;
    const bytes = either.map((compute) => {
      const key = `${peer} ${compute}`;
      const work = beside.get(key) ?? workBytes(peer, compute);
      beside.set(key, work);
      return work + bytesOf(shardBuffers(model, { ...plan, state }, peer, known, compute));
    });
    return Math.min(inHost, cap - Math.max(...bytes));
  };
}

/** Past a GPU's largest buffer there is no room, whatever else is free. */
const bufferRoom = (model: Model, kept: readonly BlockState[], limit: number | undefined): number =>
  limit === undefined
    ? Number.POSITIVE_INFINITY
    : limit - largestShardBytes(model, kept) < 0
      ? -1
      : Number.POSITIVE_INFINITY;

interface Costed extends Replicated {
  readonly forecast: Forecast;
  readonly memory: ReadonlyMap<PeerId, number>;
}

/** By what peers of a cluster are predicted to need and to take. */
export function replicated(costs: ClusterCosts, chosen: Plan, wish: ReplicaWish): Costed {
  const buffers = costs.bufferLimits;
  const plan = withoutReplicas(chosen, withinBuffers(costs.model, buffers));
  const candidates = candidatesOf(
    plan,
    costs.peers.map(({ id }) => id),
  );
  const bytesWith = memoryWith(costs, plan);
  const placing = {
    ...{ model: costs.model, islands: costs.batch.islands, buffers, plan, candidates, before: wish.before },
    roomBytes: (peer: PeerId, kept: readonly BlockState[]) => {
      const known = costs.peers[costs.placeOf(peer)];
      const inHost = Math.min(
        hostRoom({ ...plan, state: kept }, peer, known?.hostBytes),
        bufferRoom(costs.model, kept, buffers.get(peer)?.bufferBytes),
      );
      return Math.min(inHost, (known?.memoryBytes ?? 0) - bytesWith(peer, kept));
    },
    byteCost: (from: PeerId, to: PeerId) => {
      const [upload, download] = [costs.peers[costs.placeOf(from)]?.upload, costs.peers[costs.placeOf(to)]?.download];
      const link = costs.link(from, to).bytesPerSecond;
      return 1 / Math.min(upload ?? MOST_RATE, download ?? MOST_RATE, link ?? MOST_RATE, MOST_RATE);
    },
    nearness: nearnessOfCopies(wish.sites),
  };
  const bare = forecast(costs, plan);
  let growth: number | null = null;
  for (let count = wish.count; ; count--) {
    const placed = withReplicas({ ...placing, count });
    const built = build(placed);
    const predicted = count === 0 ? bare : forecast(costs, placed, built);
    const longer = predicted.stepSeconds / bare.stepSeconds - 1;
    if (count > 0 && !wish.isAsked && longer > MOST_GROWTH) {
      growth = longer;
      continue;
    }
    const memory = memoryOf(costs, placed, built);
    const uploaded = withUploaders(costs, placed);
    const lack = shortfall(placed, wish.count, candidates.length, growth);
    const reasons = [...costReasons(placed, predicted, bare), ...uploadReasons(costs, uploaded), ...lack];
    return { plan: uploaded, forecast: predicted, memory, reasons };
  }
}

function costReasons({ state }: Plan, predicted: Forecast, bare: Forecast): Reason[] {
  const counts = state.flatMap(({ shards }) => shards.map(({ replicas }) => replicas.length));
  const [fewest, most] = [Math.min(...counts), Math.max(...counts)];
  if (most === 0) return [];
  const sent = ({ peers }: Forecast): number => [...peers.values()].reduce((sum, { sentBytes }) => sum + sentBytes, 0);
  const longer = predicted.stepSeconds - bare.stepSeconds;
  const percent = rounded((100 * longer) / (bare.stepSeconds || 1), 2);
  const copies = fewest === most ? copiesWords(most) : `${fewest} to ${copiesWords(most)}`;
  return [
    {
      peer: null,
      text: `Each part of the state has ${copies} with other donors: a step takes ${longer < 1e-3 ? 'less than 1 ms' : secondsText(longer)} longer for it (${percent} %), and sends ${bytesText(sent(predicted) - sent(bare))} more.`,
    },
  ];
}

/** `growth`: by how much a step would take longer with one copy more than there are; null: that is not why. */
function shortfall({ state }: Plan, wanted: number, peers: number, growth: number | null): Reason[] {
  const copies = state.flatMap(({ shards }) => shards.map(({ replicas }) => replicas.length));
  const short = copies.filter((count) => count < wanted).length;
  if (short === 0) return [];
  const warning = (text: string): Reason[] => [{ peer: null, text, isWarning: true }];
  const back = 'is gone, the run goes back to its newest checkpoint';
  if (peers === 1) return warning(`One donor keeps the only copy of the state. When it ${back}.`);
  const place =
    short === copies.length
      ? 'Nothing of the training state (weights and optimizer) has'
      : `${short} of the ${copies.length} parts of the training state (weights and optimizer) lack`;
  const why =
    growth !== null
      ? growth < 1
        ? `a step would take ${rounded(100 * growth, 2)} % longer`
        : `a step would take ${rounded(1 + growth, 2)} times as long`
      : wanted >= peers
        ? `there are ${counted(peers, 'donor')}`
        : 'the memory that donors give has no room for more';
  return warning(
    `${place} ${copiesWords(wanted)} with ${wanted === 1 ? 'another donor' : 'other donors'}, because ${why}. When every donor that keeps a part ${back}.`,
  );
}

const copiesWords = (count: number): string => (count === 1 ? 'a copy' : `${count} copies`);

/** How much of the state lacks copies, in shares of the whole; a copy near its primary is half of one, or less. */
export function lackOf(plan: Plan, { count, sites }: ReplicaWish): number {
  const near = nearness(sites);
  let [lack, whole] = [0, 0];
  for (const { shards } of plan.state)
    for (const { peer, range, replicas } of shards) {
      const elements = range[1] - range[0];
      whole += elements;
      const copies = replicas.slice(0, count).reduce((sum, replica) => sum + 1 / (1 + near(peer, replica)), 0);
      lack += elements * (count - copies);
    }
  return whole === 0 ? 0 : lack / whole;
}
