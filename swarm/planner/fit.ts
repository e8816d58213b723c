/**
 * The equal split, bent until it fits the memory that each donor gives. A plan that needs more of a peer than its cap is
 * never used. What is tried, in this order, and only where no option decides it: the equal split as it is; layers moved
 * from the stage of the peer that lacks most to the stage with most room; twice as many micro-batches, which are
 * smaller; more stages; 1F1B, which keeps fewer micro-batches in flight; all of these again, with layers that the short
 * of memory compute twice; and last with shards in main memory, where donors give some. The first plan that fits is taken: a pure function of the donors, their caps and the options,
 * never of a measurement.
 * Where another plan is to be taken after, its places are kept as far as memory allows.
 */
import { at, countIn, overlap, type PeerId, type Range, type Result, refusal, success } from '../base.ts';
import { type BufferLimits, type Oversized, oversized, oversizedWords } from '../memory/bufferLimits.ts';
import { hostBytes, plannedBytes } from '../memory/memory.ts';
import { hasMatrices } from '../model/matrices.ts';
import type { BlockName, Model } from '../model/model.ts';
import { hasOwnEnds, NEEDS_OWN, type OwnEnds, peersAtEnds } from '../plan/ends.ts';
import { gathersAny, type Plan, type PlanStage, peers as peersOf, type Shard } from '../plan/plan.ts';
import { withStateSent } from '../plan/tokenRows.ts';
import { bytesText, counted } from '../quantityText.ts';
import { firstLayers } from '../schedule/recompute.ts';
import { packedBytes } from '../wire.ts';
import type { ClusterProblem } from './clusterCosts.ts';
import {
  defaultMicroBatches,
  equalSplit,
  microBatchUnit,
  ownedStages,
  type SplitOptions,
  splitAlong,
  splitProblem,
  withAllowedCuts,
} from './equalSplit.ts';
import { HOST_ELEMENT_BYTES, type HostMemory, inMainMemory } from './mainMemory.ts';
import { type LineCaps, withCappedWires } from './streamWires.ts';

/** Bytes that each peer gives; a peer that is not in it gives what is needed. */
export type MemoryCaps = ReadonlyMap<PeerId, number>;

interface FitProblem {
  readonly model: Model;
  readonly batch: ClusterProblem['batch'];
  readonly peers: readonly PeerId[];
  readonly caps: MemoryCaps;
  /** Absent: nobody gives main memory. */
  readonly hosts?: HostMemory;
  /** Absent: every GPU takes any buffer. */
  readonly buffers?: BufferLimits;
  readonly options: SplitOptions;
  /** Who alone may have the first and last stage; absent, or null: anyone. */
  readonly own?: OwnEnds | undefined;
  /** Whose gathering and main memory it has, as far as these donors can; absent: neither. */
  readonly like?: Plan | undefined;
  /** By which links of a run with `wire: "auto"` are chosen; absent: nobody has a cap. */
  readonly lines?: LineCaps;
  /** How a refusal calls a donor; absent: by its place. */
  readonly called?: ((peer: PeerId) => string) | undefined;
}

/** Orders of donors that are tried where some GPUs take no buffer as large as is needed. */
const MOST_ORDERS = 16;

/** What a plan lacks: bytes over all peers, and the peer that lacks most. */
interface Shortage {
  readonly bytes: number;
  readonly worst: {
    readonly peer: PeerId;
    readonly needs: number;
    readonly has: number;
    readonly of: 'GPU memory' | 'main memory';
  } | null;
  /** A buffer that a GPU does not take, whatever else is free. */
  readonly oversized: Oversized | null;
}

export function shortage(
  { model, batch, caps, hosts = new Map(), buffers = new Map() }: Omit<FitProblem, 'peers' | 'options' | 'lines'>,
  plan: Plan,
): Shortage {
  const large = oversized(model, batch, plan, buffers);
  let found: Shortage = { bytes: large ? large.bytes - large.limit : 0, worst: null, oversized: large };
  const look = (own: NonNullable<Shortage['worst']>): void => {
    const { needs, has } = own;
    if (needs <= has) return;
    const isWorse = found.worst === null || needs - has > found.worst.needs - found.worst.has;
    found = { ...found, bytes: found.bytes + needs - has, worst: isWorse ? own : found.worst };
  };
  for (const peer of peersOf(plan)) {
    const has = caps.get(peer);
    if (has !== undefined) look({ peer, needs: plannedBytes(model, plan, peer, batch), has, of: 'GPU memory' });
    look({ peer, needs: hostBytes(plan, peer, undefined), has: hosts.get(peer) ?? 0, of: 'main memory' });
  }
  return found;
}

/**
 * A plan within every cap, or the sentence that says how many bytes the donors at hand lack. Where a donor's GPU does not
 * take the token table in one buffer, others have the first stage and the last, in the order they joined.
 */
export function fittingSplit(problem: FitProblem): Result<Plan> {
  const { own = null } = problem;
  return own === null ? inSomeOrder(problem) : withOwnAtEnds(problem, own);
}

/** The operator's own donors take the places at the ends, in the order they joined, the others those that are left. */
function withOwnAtEnds(problem: FitProblem, own: ReadonlySet<PeerId>): Result<Plan> {
  const joined = problem.peers;
  const [trusted, others] = [joined.filter((peer) => own.has(peer)), joined.filter((peer) => !own.has(peer))];
  if (trusted.length === 0) return refusal(NEEDS_OWN);
  let peers = joined;
  for (let tries = 0; tries < MOST_ORDERS; tries++) {
    const found = inSomeOrder({ ...problem, peers });
    if (!found.ok || hasOwnEnds(found.value, own)) return found;
    const ends = peersAtEnds(found.value);
    if (ends.size > trusted.length)
      return refusal(
        `${NEEDS_OWN}: ${counted(ends.size, 'donor')} would have them, and ${counted(trusted.length, 'donor')} of these ${trusted.length === 1 ? 'is' : 'are'}`,
      );
    const [first, rest] = [trusted.slice(0, ends.size), [...trusted.slice(ends.size), ...others]];
    const between = joined.filter((peer) => rest.includes(peer));
    peers = peers.map((peer) => (ends.has(peer) ? first.shift() : between.shift()) ?? peer);
  }
  return refusal(NEEDS_OWN);
}

function inSomeOrder(problem: FitProblem): Result<Plan> {
  const asJoined = splitInOrder(problem);
  if (asJoined.plan !== null) return success(asJoined.plan);
  const { lacks, reason } = asJoined;
  if (lacks?.oversized) {
    const { of, bytes } = lacks.oversized;
    const isAble = (peer: PeerId): boolean => {
      const limit = problem.buffers?.get(peer);
      return limit === undefined || (of === 'buffer' ? limit.bufferBytes : limit.bindingBytes) >= bytes;
    };
    const [able, others] = [problem.peers.filter(isAble), problem.peers.filter((peer) => !isAble(peer))];
    for (let front = 1; front < able.length && front <= MOST_ORDERS; front++) {
      const peers = [...able.slice(0, front), ...others, ...able.slice(front)];
      const { plan } = splitInOrder({ ...problem, peers });
      if (plan !== null) return success(plan);
    }
  }
  return refusal(reason);
}

type Split =
  | { readonly plan: Plan }
  | { readonly plan: null; readonly reason: string; readonly lacks: Shortage | null };

function splitInOrder(problem: FitProblem): Split {
  const { model, batch, peers, caps, options, buffers } = problem;
  const impossible = splitProblem(model, batch.samples, peers.length, options);
  if (impossible !== null) return { plan: null, reason: impossible, lacks: null };
  const first = madeOf(problem, equalSplit(model, batch.samples, peers, options));
  if (!peers.some((peer) => caps.has(peer) || buffers?.has(peer))) return { plan: first };
  let nearest = shortage(problem, first);
  if (nearest.bytes === 0) return { plan: first };
  for (const relief of reliefs(problem)) {
    for (const tried of variations(problem, first)) {
      const found = shifted(problem, tried, relief);
      if ('stages' in found) return { plan: found };
      if (found.bytes < nearest.bytes) nearest = found;
    }
  }
  return { plan: null, reason: sentence(nearest, peers, problem.called), lacks: nearest };
}

const mayCutAnywhere = ({ model, batch }: FitProblem): boolean => !batch.islands && !hasMatrices(model);

/** An equal split as it is to be for this run. */
function madeOf(problem: FitProblem, split: Plan): Plan {
  const { model, batch, like, hosts = new Map() } = problem;
  const cut = withAllowedCuts(model, batch.islands, split);
  return writtenIn(problem, like ? likePlan(cut, like, hosts, mayCutAnywhere(problem)) : cut);
}

function writtenIn({ model, batch, lines }: FitProblem, split: Plan): Plan {
  const plan = withStateSent(model, split, batch);
  if (batch.wire !== 'auto' || lines === undefined) return plan;
  return withCappedWires(plan, lines, (wire) => packedBytes(wire, batch.sequence * model.width));
}

/** `called`: a donor in words; where absent, by its place among them. */
export function sentence(
  { bytes, worst, oversized: large }: Shortage,
  order: readonly PeerId[],
  called = (peer: PeerId): string => `donor ${order.indexOf(peer)}`,
): string {
  if (large) {
    const who = `the GPU of ${called(large.peer)}`;
    return `the model does not fit these donors: ${oversizedWords(large, who)}`;
  }
  const who =
    worst === null
      ? ''
      : `. ${called(worst.peer)} gives ${bytesText(worst.has)} of ${worst.of}, and its part needs ${bytesText(worst.needs)}`;
  return `the model does not fit these donors: about ${bytesText(bytes)} of memory is missing${who}`;
}

/** Options with everything decided, from the preferred one on. */
function* variations({ model, batch, peers, options }: FitProblem, first: Plan): Generator<SplitOptions> {
  const schedules = options.schedule ? [options.schedule] : (['gpipe', '1f1b'] as const);
  const preferred = first.stages.length;
  const isFixed = options.stages !== undefined || ownedStages(peers.length, options) !== null;
  const most = isFixed ? preferred : Math.min(peers.length, model.layers);
  const unit = microBatchUnit(peers.length, options);
  for (const schedule of schedules) {
    for (let stages = preferred; stages <= most; stages++) {
      const fewest = options.microBatches ?? Math.max(defaultMicroBatches(batch.samples, stages), lanesAtLeast(first));
      let microBatches = Math.min(fewest, batch.samples);
      microBatches -= microBatches % unit;
      for (;;) {
        if (splitProblem(model, batch.samples, peers.length, { stages, microBatches }) === null)
          yield { ...options, schedule, stages, microBatches };
        const more = Math.min(2 * microBatches, batch.samples - (batch.samples % unit));
        if (options.microBatches !== undefined || microBatches >= more) break;
        microBatches = more;
      }
    }
  }
}

/** What else makes a plan smaller, one after the other. */
function reliefs(problem: FitProblem): readonly ((plan: Plan) => Plan)[] {
  const { model, batch, caps, hosts } = problem;
  const isVaruna = problem.options.schedule === 'varuna';
  const smaller = (plan: Plan): Plan => (isVaruna ? fewerInFlight(problem, plan) : recomputing(problem, plan));
  const onGpus = [(plan: Plan): Plan => plan, smaller];
  if (hosts === undefined || hosts.size === 0) return onGpus;
  const lacks = (plan: Plan, peer: PeerId): number =>
    plannedBytes(model, plan, peer, batch) - (caps.get(peer) ?? Infinity);
  const inHost = (plan: Plan): Plan =>
    inMainMemory(plan, peersOf(plan), { lacks, hosts, mayCut: mayCutAnywhere(problem) });
  return [...onGpus, inHost, (plan) => inHost(smaller(plan))];
}

/** Of varuna: as many past 1F1B's bound as fit, or none. */
function fewerInFlight(problem: FitProblem, plan: Plan): Plan {
  let fewer = plan;
  for (let most = plan.microBatches.length; most >= 1 && shortage(problem, fewer).bytes > 0; most--)
    fewer = { ...plan, maxInFlight: most };
  return fewer;
}

const lanesAtLeast = ({ stages }: Plan): number => Math.max(...stages.map(({ members }) => members.length));

/** As few layers computed twice as make a member fit, or all of them. */
function recomputing({ model, batch, caps }: FitProblem, plan: Plan): Plan {
  let relieved = plan;
  for (const [index, { members, layers }] of plan.stages.entries()) {
    for (const { peer } of members) {
      const cap = caps.get(peer) ?? Infinity;
      for (let count = 1; count <= countIn(layers); count++) {
        if (plannedBytes(model, relieved, peer, batch) <= cap) break;
        relieved = recomputingFirst(relieved, index, peer, count);
      }
    }
  }
  return relieved;
}

const recomputingFirst = (plan: Plan, stage: number, peer: PeerId, count: number): Plan => ({
  ...plan,
  stages: plan.stages.map((one, index) => ({
    ...one,
    members: one.members.map((member) =>
      index === stage && member.peer === peer ? { ...member, recompute: firstLayers(one.layers, count) } : member,
    ),
  })),
});

/** Moves layers one at a time from the stage that lacks most; a plan that fits, or the least that was lacking. */
function shifted(problem: FitProblem, options: SplitOptions, relief: (plan: Plan) => Plan): Plan | Shortage {
  const { model, batch, peers } = problem;
  const cut = (split: Plan): Plan => relief(madeOf(problem, split));
  let plan = cut(equalSplit(model, batch.samples, peers, options));
  let least = shortage(problem, plan);
  let cuts = plan.stages.map(({ layers }) => layers);
  const seen = new Set([cuts.join()]);
  for (let lacking = least; ; ) {
    if (lacking.bytes === 0) return plan;
    const next = moveLayer(problem, plan, cuts, lacking);
    if (next === null || seen.has(next.join())) return least;
    seen.add(next.join());
    cuts = next;
    plan = cut(splitAlong(model, batch.samples, peers, cuts, options));
    lacking = shortage(problem, plan);
    if (lacking.bytes < least.bytes) least = lacking;
  }
}

/** One layer less for the stage of the peer that lacks most, one more for the stage with most room. */
function moveLayer(problem: FitProblem, plan: Plan, cuts: readonly Range[], { worst }: Shortage): Range[] | null {
  const { model, batch, caps } = problem;
  const room = plan.stages.map(({ members }) =>
    Math.min(...members.map(({ peer }) => (caps.get(peer) ?? Infinity) - plannedBytes(model, plan, peer, batch))),
  );
  const sizes = cuts.map(([first, end]) => end - first);
  // Of its stages the one with the most layers.
  const from = plan.stages.reduce((most, { members }, stage) => {
    const isIts = members.some(({ peer }) => peer === worst?.peer);
    return isIts && (most < 0 || at(sizes, stage) > at(sizes, most)) ? stage : most;
  }, -1);
  if (from < 0 || at(sizes, from) <= 1) return null;
  // Of stages with as much room the one with the fewest layers.
  const to = room.reduce((best, bytes, stage) => {
    if (stage === from) return best;
    const known = room[best] ?? -Infinity;
    const isRoomier = bytes > known || (bytes === known && at(sizes, stage) < at(sizes, best));
    return best < 0 || isRoomier ? stage : best;
  }, -1);
  if (to < 0 || at(room, to) <= 0) return null;
  let end = 0;
  return sizes.map((size, stage): Range => {
    const begin = end;
    end += size - (stage === from ? 1 : 0) + (stage === to ? 1 : 0);
    return [begin, end];
  });
}

/**
 * What other donors than a plan was made for keep of it beside its order: stages that gather, and state in main memory. The
 * rest of theirs is an equal split.
 *
 * Has a plan any of that?
 */
export const hasPlaces = ({ stages, state }: Plan): boolean =>
  gathersAny(stages) || state.some(({ shards }) => shards.some((shard) => shard.in === 'host'));

/**
 * A split whose stages of several members gather where those in the same place of `like` do, and whose shards lie in main
 * memory where its do, each as far as its keeper gives some. `mayCut`: also a part of a shard.
 */
function likePlan(split: Plan, like: Plan, hosts: HostMemory, mayCut: boolean): Plan {
  const stages = split.stages.map((stage, index) => {
    const { gathered, layered } = stageAt(like, index / split.stages.length);
    if (gathered === undefined || stage.members.length < 2) return stage;
    const mayBeLayered = split.stages.length === 1 && split.schedule === 'gpipe';
    return { ...stage, gathered, ...(layered && mayBeLayered && { layered }) };
  });
  const free = new Map(hosts);
  const state = split.state.map(({ block, shards }) => {
    const inHost = hostRanges(like, block);
    return { block, shards: shards.flatMap((shard) => placed(shard, inHost, free, mayCut)) };
  });
  return { ...split, stages, state };
}

const stageAt = ({ stages }: Plan, part: number): PlanStage => at(stages, Math.floor(part * stages.length));

/** Ascending; neighbouring ones are one. */
function hostRanges({ state }: Plan, name: BlockName): Range[] {
  const found: Range[] = [];
  const shards = state.find(({ block }) => block === name)?.shards ?? [];
  for (const { range, in: place } of shards.toSorted((a, b) => a.range[0] - b.range[0])) {
    if (place !== 'host') continue;
    const last = found.at(-1);
    if (last?.[1] === range[0]) found[found.length - 1] = [last[0], range[1]];
    else found.push(range);
  }
  return found;
}

/** A shard, cut where what lies in main memory begins and ends. */
function placed(shard: Shard, inHost: readonly Range[], free: Map<PeerId, number>, mayCut: boolean): Shard[] {
  const [first, end] = shard.range;
  const within = inHost.flatMap((range) => {
    const part = overlap(range, shard.range);
    return part && (mayCut || countIn(part) === end - first) ? [part] : [];
  });
  const found: Shard[] = [];
  let reached = first;
  for (const range of within) {
    if (reached < range[0]) found.push({ ...shard, range: [reached, range[0]] });
    found.push(moved({ ...shard, range }, free));
    reached = range[1];
  }
  return reached < end ? [...found, { ...shard, range: [reached, end] }] : found;
}

/** In main memory, where its keeper has so much left. */
function moved(shard: Shard, free: Map<PeerId, number>): Shard {
  const left = (free.get(shard.peer) ?? 0) - HOST_ELEMENT_BYTES * countIn(shard.range);
  if (left < 0) return shard;
  free.set(shard.peer, left);
  return { ...shard, in: 'host' };
}
