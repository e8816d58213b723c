/**
 * The whole answer of `shoal plan`: the best plan found while the caller lets the search go on, what it is predicted to
 * take, and in words why each peer has its size or none. Where nothing fits, how much memory is missing, and where.
 * A plan once it is chosen: its copies of state, updates shared between GPU and main memory, its links.
 */
import { at, countIn, got, type PeerId, type Result, refusal, success, totalOf } from '../base.ts';
import { oversizedWords } from '../memory/bufferLimits.ts';
import { hostBytes } from '../memory/memory.ts';
import { hasMatrices } from '../model/matrices.ts';
import { hasOwnEnds, NEEDS_OWN } from '../plan/ends.ts';
import { type Plan, type PlanStage, problems } from '../plan/plan.ts';
import { sizeOf } from '../plan/shardCuts.ts';
import { bytesText, counted, layersText, secondsText as seconds } from '../quantityText.ts';
import { type ClusterCosts, type ClusterProblem, clusterCosts, type PlannedPeer } from './clusterCosts.ts';
import { type Judged, memoryOf, memoryWithin, planOf, withLinks } from './draft.ts';
import { type Forecast, forecast, shapeOf, takingTurns } from './forecast.ts';
import { gatherSeconds } from './gathering.ts';
import { HOST_ELEMENT_BYTES, moreInMainMemory } from './mainMemory.ts';
import { regrouped } from './moves.ts';
import { orderReason, orderSentence, orderText, otherOrders } from './otherOrders.ts';
import type { Reason } from './reason.ts';
import { replicated, withoutReplicas } from './replicas.ts';
import { type Candidate, Search, type SearchProgress } from './search.ts';
import { whatFits } from './whatIf.ts';

/** Idle peers for whom drafts with them are judged, beside those that the search found. */
const MOST_TRIED_IDLE = 6;
/** Peers that one sentence names. */
const MOST_NAMED = 6;

export interface ClusterPlan {
  readonly plan: Plan;
  readonly predicted: {
    readonly stepSeconds: number;
    readonly tokensPerSecond: number;
    readonly peers: readonly {
      readonly peer: PeerId;
      readonly busySeconds: number;
      readonly memoryBytes: number;
      readonly memoryLimitBytes: number;
      readonly sentBytes: number;
    }[];
  };
  readonly idle: readonly { readonly peer: PeerId; readonly reason: string }[];
  readonly reasons: readonly Reason[];
}

/**
 * `goOn` is asked after every look, and so is whoever goes on with this generator; a plan is looked for until there is one.
 * `explain`: a refusal's sentences, each longer than the one before.
 */
export function* planning(
  problem: ClusterProblem,
  goOn: (progress: SearchProgress) => boolean,
  explain: (problem: ClusterProblem, search: Search) => Iterable<string> = shortage,
): Generator<void, Result<ClusterPlan>> {
  const search = new Search(problem);
  if (search.costs.own?.size === 0) return refusal(NEEDS_OWN);
  let best: Candidate | null = null;
  let hasLooked = false;
  for (const progress of search.progress()) {
    ({ best } = progress);
    if (best !== null && !goOn(progress)) break;
    hasLooked = true;
    yield;
  }
  if (best === null) {
    let reason = '';
    for (reason of explain(problem, search)) yield;
    return refusal(reason);
  }
  // Whoever wants no search has the plan that it began with.
  const ordered = hasLooked ? { ...best, ...(yield* otherOrders(search.costs, best)) } : best;
  const { costs } = search;
  const bare = withCopies(problem, costs, ordered);
  const shared = hasLooked ? withSharedUpdates(costs, ordered.plan) : null;
  const other = shared && withCopies(problem, costs, { ...ordered, plan: shared, ...measures(costs, shared) });
  const isShorter = other !== null && other.forecast.stepSeconds < bare.forecast.stepSeconds;
  // No copy is given up for it.
  const isShared = isShorter && copiesIn(other.plan) >= copiesIn(bare.plan);
  const placed = isShared ? other : bare;
  const chosen = linked(costs, placed);
  const [fault] = problems(problem.model, problem.batch, chosen.plan);
  if (fault) throw new Error(`invariant violated: the search made no plan: ${fault.text}`);
  if (!hasOwnEnds(chosen.plan, costs.own)) throw new Error('invariant violated: the search gave an end to a stranger');
  const large = costs.oversized(chosen.plan);
  if (large) throw new Error(`invariant violated: ${oversizedWords(large, large.peer)}`);
  const of = [...orderReasons(costs, best, ordered), ...placed.reasons];
  return success(answer(search, chosen, of));
}

type Copied = Candidate & { readonly reasons: readonly Reason[] };

function withCopies({ replicas }: ClusterProblem, costs: ClusterCosts, chosen: Candidate): Copied {
  return { ...chosen, reasons: [], ...(replicas?.count ? replicated(costs, chosen.plan, replicas) : {}) };
}

const measures = (costs: ClusterCosts, plan: Plan): Pick<Candidate, 'forecast' | 'memory'> => ({
  forecast: forecast(costs, plan),
  memory: memoryOf(costs, plan),
});

/** Elements that stand copied. */
const copiesIn = ({ state }: Plan): number =>
  totalOf(state, ({ shards }) => totalOf(shards, (shard) => sizeOf(shard) * shard.replicas.length));

/** With the encodings and connections of its links, and turns on lines that are shared. */
function linked(costs: ClusterCosts, whole: Candidate): Candidate {
  const plan = takingTurns(costs, withLinks(costs, whole.plan));
  if (plan.links === whole.plan.links && plan.lines === whole.plan.lines) return whole;
  return { ...whole, plan, ...measures(costs, plan) };
}

/** The same in one go. */
export function planCluster(...how: Parameters<typeof planning>): Result<ClusterPlan> {
  const looks = planning(...how);
  for (;;) {
    const look = looks.next();
    if (look.done) return look.value;
  }
}

/** Of a plan that takes this long and so much memory; `ids`: its peers, in the order of the answer. */
export function predictionOf(
  costs: ClusterCosts,
  { stepSeconds, peers }: Forecast,
  memory: ReadonlyMap<PeerId, number>,
  ids: readonly PeerId[] = costs.peers.flatMap(({ id }) => (memory.has(id) ? [id] : [])),
): ClusterPlan['predicted'] {
  const { samples, sequence } = costs.batch;
  return {
    stepSeconds,
    tokensPerSecond: (samples * sequence) / stepSeconds,
    peers: ids.map((peer) => ({
      peer,
      busySeconds: got(peers, peer).busySeconds,
      memoryBytes: got(memory, peer),
      memoryLimitBytes: at(costs.peers, costs.placeOf(peer)).memoryBytes,
      sentBytes: got(peers, peer).sentBytes,
    })),
  };
}

/** `chosen`: what is to be said of the order and of the replicas. */
function answer(search: Search, best: Candidate, chosen: readonly Reason[]): ClusterPlan {
  const { costs } = search;
  const used = costs.peers.filter(({ id }) => best.memory.has(id));
  return {
    plan: best.plan,
    predicted: predictionOf(costs, best.forecast, best.memory),
    idle: idleReasons(search, best),
    reasons: [
      ...[...planReasons(search, best), ...gatherReasons(search, best), ...hostReasons(search, best)].map((text) => ({
        peer: null,
        text,
      })),
      ...chosen,
      ...used.map((peer) => ({ peer: peer.id, text: sizeReason(costs, best, peer) })),
    ],
  };
}

/** Why work is not in the order of the best draft, or why that is not the plain one. */
function orderReasons(costs: ClusterCosts, draft: Candidate, ordered: Candidate): Reason[] {
  const { plan } = ordered;
  const { warmup, ...plain } = plan;
  if (plan === draft.plan && warmup === undefined) return [];
  const other = plan === draft.plan ? { plan: plain, forecast: forecast(costs, plain) } : draft;
  return [{ peer: null, text: orderSentence(orderReason(ordered, other)) }];
}

function planReasons({ byStages }: Search, best: Candidate): string[] {
  const { plan, forecast } = best;
  const own = plan.stages.length;
  const others = [...byStages]
    .filter(([stages, { missingBytes }]) => stages !== own && missingBytes === 0)
    .sort(([a], [b]) => a - b)
    .map(([stages, judged]) => `${counted(stages, 'stage')} ${seconds(judged.seconds)}`);
  const chosen = `${counted(own, 'stage')}, ${counted(plan.microBatches.length, 'micro-batch')}, ${orderText(plan)}: ${seconds(forecast.stepSeconds)} a step`;
  // Drafts are judged without copies of state: like is compared with like.
  const isGathered = plan.stages.some(({ gathered }) => gathered);
  const bare = seconds((isGathered ? undefined : byStages.get(own)?.seconds) ?? forecast.stepSeconds);
  const alike = bare === seconds(forecast.stepSeconds) ? '' : `, of that ${bare} without copies`;
  const compared =
    others.length === 0
      ? ''
      : `${alike}; the best found with another number${alike && ', without copies'}: ${others.join(', ')}`;
  return [`${chosen}${compared}.`, limit(best)];
}

/** Of each stage that gathers its layers: what that is, and that its links are fast enough. */
function gatherReasons({ costs, withoutGathering: plain }: Search, { plan }: Candidate): string[] {
  const without =
    plain === null ? 'no plan without fits' : `the best plan without takes ${seconds(plain.seconds)} a step`;
  return plan.stages.flatMap((planned, stage) => {
    const { gathered, members } = planned;
    if (!gathered) return [];
    const places = members.map(({ peer }) => costs.placeOf(peer));
    const least = Math.min(...places.map((place) => 1 / (costs.speeds[place] ?? 1)));
    const kept = gathered === 1 ? 'one at a time' : 'two at a time, so that one comes while the other is computed with';
    return [
      `Stage ${stage + 1} gathers its layers, ${kept} (ZeRO's third stage): its members keep shares of them for want of memory, and a layer comes over their links in ${seconds(gatherSeconds(costs, places))}, where its fastest member computes a sample of it in ${seconds(least)}; ${without}.${layeredWords(costs, plan, planned)}`,
    ];
  });
}

/** That a layer comes once for all micro-batches of a pass, and what a step would take else. */
function layeredWords(costs: ClusterCosts, plan: Plan, { layered, ...stage }: PlanStage): string {
  if (!layered) return '';
  const most = Math.max(...stage.members.map(({ microBatches }) => microBatches.length));
  const each = forecast(costs, { ...plan, schedule: '1f1b', stages: [stage] });
  return ` It comes once for all ${most} micro-batches of a pass, forward and backward (layered accumulation), whose activations are all kept meanwhile: once for each of them, a step would take ${seconds(each.stepSeconds)}.`;
}

/** That state lies in main memory, with whom and why. */
function hostReasons({ costs, withoutMainMemory: without }: Search, { plan }: Candidate): string[] {
  const kept = costs.peers
    .map((peer) => ({ peer, id: peer.id, bytes: hostBytes(plan, peer.id, undefined) }))
    .filter(({ bytes }) => bytes > 0);
  if (kept.length === 0) return [];
  const who = kept.map(({ id, bytes }) => `${id} (${bytesText(bytes)})`).slice(0, MOST_NAMED);
  const more = kept.length > who.length ? ` and ${counted(kept.length - who.length, 'other')}` : '';
  const update = Math.max(...kept.map(({ peer, bytes }) => costs.hostUpdateSeconds(peer, bytes / HOST_ELEMENT_BYTES)));
  const hosted = `with ${who.join(', ')}${more}, which is updated in up to ${seconds(update)}, beside what GPUs do meanwhile`;
  const alone = onGpusAlone(costs, plan);
  if (alone)
    return [
      `A part of the state lies in main memory, so that it is updated there while GPUs update the rest: ${hosted}; on GPUs alone a step takes ${seconds(forecast(costs, alone).stepSeconds)}.`,
    ];
  const other =
    without === null ? 'no plan without fits' : `the best plan without takes ${seconds(without.seconds)} a step`;
  return [
    `A part of the state lies in main memory and is updated there, for want of memory on GPUs: ${hosted}; ${other}.`,
  ];
}

/** What of a step nothing else hides, and which part of it is most. */
function limit({ forecast: { stepSeconds, stateSeconds, peers } }: Candidate): string {
  let busiest: readonly [PeerId | null, number] = [null, 0];
  for (const [peer, { busySeconds }] of peers) if (busySeconds > busiest[1]) busiest = [peer, busySeconds];
  const peer = busiest[0];
  // Rest that is still owed to a throttled donor's GPU is taken after the step.
  const busy = Math.min(busiest[1], stepSeconds);
  const waiting = Math.max(0, stepSeconds - busy - stateSeconds);
  const parts = [
    { part: busy, name: `the speed of ${peer}` },
    { part: stateSeconds, name: 'the exchange of state' },
    { part: waiting, name: 'the way through the pipeline and its links' },
  ];
  const most = parts.reduce((first, next) => (next.part > first.part ? next : first));
  return `The bottleneck is ${most.name}. Of a step ${peer} is busy for ${seconds(busy)}, exchanging gradients and values takes ${seconds(stateSeconds)}, and waiting for others ${seconds(waiting)}.`;
}

function sizeReason(costs: ClusterCosts, { plan, memory, forecast }: Candidate, peer: PlannedPeer): string {
  const parts = plan.stages.flatMap(({ layers, members, gathered }, stage) => {
    const own = members.find((member) => member.peer === peer.id);
    if (!own) return [];
    const share = members.length === 1 ? 'every sample' : `${own.samples} of ${costs.batch.samples} samples`;
    const again = own.recompute.length === 0 ? '' : `, ${own.recompute.length} recomputed for want of memory`;
    return [`stage ${stage + 1}, ${gathered ? 'gathered ' : ''}${layersText(layers)}, ${share}${again}`];
  });
  const speed = `${seconds(costs.slowness(peer))} a sample and layer`;
  const busy = got(forecast.peers, peer.id).busySeconds;
  const percent = Math.min(100, Math.round((100 * busy) / (forecast.stepSeconds || 1)));
  const used = Math.round((100 * got(memory, peer.id)) / (peer.memoryBytes || 1));
  const host = hostBytes(plan, peer.id, costs.batch.islands);
  const beside = host > 0 ? `, ${bytesText(host)} of main memory` : '';
  return `${parts.join('; ') || keptWords(plan, peer)}: ${speed}, busy ${percent} % of the step, ${used} % of its memory${beside}.`;
}

/** Of a peer that is in no stage. */
function keptWords(plan: Plan, { id }: PlannedPeer): string {
  let [elements, copied] = [0, 0];
  for (const { shards } of plan.state)
    for (const { peer, range, replicas } of shards) {
      if (peer === id) elements += countIn(range);
      if (replicas.includes(id)) copied += countIn(range);
    }
  const kept = [
    ...(elements > 0
      ? [`${elements.toLocaleString('en')} elements of the state for which the others have no room`]
      : []),
    ...(copied > 0 ? [`copies of ${copied.toLocaleString('en')} elements of the state`] : []),
  ];
  return `computes nothing, because that would slow the others, and keeps ${kept.join(' and ')}`;
}

function idleReasons(search: Search, best: Candidate): ClusterPlan['idle'] {
  const { costs } = search;
  const idle = [...costs.peers.entries()].filter(([, { id }]) => !best.memory.has(id));
  const now = best.forecast.stepSeconds;
  return idle.map(([place, peer], index) => {
    const shape = { first: false, last: false, layers: Math.min(1, costs.model.layers) };
    const needed =
      costs.model.layers < 3
        ? 0
        : costs.memory.stageBytes(shape, { samples: 1, slots: 1, recomputed: 1 }, peer.compute);
    if (peer.memoryBytes < needed)
      return {
        peer: peer.id,
        reason: `its ${bytesText(peer.memoryBytes)} of memory are too little for one layer and one sample, which need ${bytesText(needed)}`,
      };
    const tried = index < MOST_TRIED_IDLE ? withOneLaneMore(search, best, place) : [];
    const found = [...search.byStages.values()].filter(({ draft }) => uses(draft, place));
    const step = Math.min(...[...tried, ...found].map(({ seconds }) => seconds));
    const links = `a sample needs ${seconds(slowestHop(costs, best, peer))} over its links, and ${seconds(costs.slowness(peer))} in each layer`;
    if (step === Infinity) return { peer: peer.id, reason: `no plan found is faster with it: ${links}` };
    const verdict =
      step > now
        ? `with it the shortest step found takes ${seconds(step)} instead of ${seconds(now)}`
        : 'it would not make a step shorter';
    return { peer: peer.id, reason: `${verdict}: ${links}` };
  });
}

const uses = ({ groups, keepers = [] }: Judged['draft'], place: number): boolean =>
  [...groups, keepers].some((places) => places.includes(place));

/** The best draft with this peer as well, in its first stage or its last. */
function withOneLaneMore(search: Search, { draft }: Candidate, place: number): Judged[] {
  return [0, draft.groups.length - 1].flatMap((stage) => {
    const groups = draft.groups.map((group, at) => (at === stage ? [...group, place] : group));
    return search.judge(regrouped(search.costs, draft, groups)) ?? [];
  });
}

/** An activation of one sample to the nearest peer of the plan. */
function slowestHop(costs: ClusterCosts, best: Candidate, peer: PlannedPeer): number {
  let least = Infinity;
  for (const id of best.memory.keys()) {
    const { latencySeconds, bytesPerSecond } = costs.link(peer.id, id);
    const rate = Math.min(bytesPerSecond ?? Infinity, peer.upload, peer.download);
    least = Math.min(least, latencySeconds + costs.sampleBytes / rate);
  }
  return least;
}

/** The plan that lacked least, in words, and what would fit: said again after each look, as more is known. */
function* shortage(problem: ClusterProblem, search: Search): Generator<string, void> {
  const lack = lackWords(search);
  yield lack;
  let parts: readonly string[] = [];
  for (parts of whatFits(problem)) if (parts.length > 0) yield `${lack}. What would help: ${parts.join('; or ')}`;
  if (parts.length === 0)
    yield `${lack}. Fewer layers, shorter samples or more donors like these do not help: it takes donors with more memory, or GPUs with larger buffers`;
}

function lackWords(search: Search): string {
  const { costs, nearest } = search;
  const drafted = nearest && planOf(costs, nearest.draft);
  const large = drafted && costs.oversized(drafted.plan);
  if (large) {
    const limitOf = ({ buffers }: PlannedPeer): number =>
      large.of === 'buffer' ? buffers.bufferBytes : buffers.bindingBytes;
    const roomiest = costs.peers.reduce((most, peer) => (limitOf(peer) > limitOf(most) ? peer : most));
    const nobody = limitOf(roomiest) < large.bytes;
    const [who, limit] = nobody ? [`${roomiest.id}, the roomiest,`, limitOf(roomiest)] : [large.peer, large.limit];
    return `the model does not fit these donors: ${oversizedWords({ ...large, limit }, who)}`;
  }
  if (!drafted || drafted.missingBytes === 0) return 'no plan was found for this run';
  const needed = memoryOf(costs, drafted.plan);
  const members = costs.peers.filter(({ id }) => needed.has(id));
  const short = members.filter(({ id, memoryBytes }) => got(needed, id) > memoryBytes);
  const words = (short.length > 0 ? short : members).map(({ id, memoryBytes }) => {
    const bytes = got(needed, id);
    return `${id} has ${bytesText(memoryBytes)}${bytes > memoryBytes ? ` and would need ${bytesText(bytes)}` : ''}`;
  });
  const more = words.length > MOST_NAMED ? [counted(words.length - MOST_NAMED, 'other')] : [];
  const who = [...words.slice(0, MOST_NAMED), ...more].join('; ');
  return `the model does not fit these donors: about ${bytesText(drafted.missingBytes)} of memory is missing. ${who}`;
}

/** A step that is not shorter by so much is not worth what comes and goes over the bus. */
const LEAST_GAIN = 0.005;
/** Of more peers all cuts stay, or none. */
const MOST_TRIED = 16;

/**
 * Updates on a GPU and in its donor's main memory at the same time (after Deep Optimizer States, Maurya et al., Middleware
 * '24, whose optimizer also goes by parts on both). Of the k elements that a peer keeps, with s seconds an element for the
 * sum in main memory, c for AdamW there and g for AdamW on the GPU, x in main memory take
 *   t(x) = s·x + max(g·(k − x), c·x)
 * which falls until both end together, at x = k·g/(g + c), where g > s; where g is no more than s nothing is gained by the
 * first one. Of c·x the next step's first forward hides up to its own time h, so that with all of it hidden
 * both end together at x = (k·g + h)/(g + c). What lies there for want of room stays there. A step has one slowest peer before
 * its commit and one after it, so that of all peers' cuts those stay without which it is longer.
 *
 * Elements of the `kept` ones that lie in main memory where both updates end together, that one after so much that is hidden;
 * 0: it is shorter with none there.
 */
export function sharedElements(costs: ClusterCosts, peer: PlannedPeer, kept: number, hiddenSeconds = 0): number {
  const [onGpu, inHost] = [costs.updateSeconds(peer, kept), costs.hostUpdateSeconds(peer, kept)];
  if (onGpu <= costs.hostSumSeconds(peer, kept)) return 0;
  return kept * Math.min(1, (onGpu + hiddenSeconds) / (onGpu + inHost));
}

/**
 * The plan with a part of the state in main memory for the time that it saves; null: it saves none. A processor takes far longer
 * than a GPU for matrices that are updated whole.
 */
function withSharedUpdates(costs: ClusterCosts, plan: Plan): Plan | null {
  if (!costs.givesMainMemory || hasMatrices(costs.model)) return null;
  const bare = forecast(costs, plan).stepSeconds;
  const seconds = (of: Plan): number => (memoryWithin(costs, of) ? forecast(costs, of).stepSeconds : Infinity);
  let [best, least] = [plan, bare];
  // A cut shard takes more of a GPU than a whole one in its place: where that has no room, whole ones go.
  for (const [isHidden, mayCut] of [
    [false, true],
    [false, false],
    [true, true],
    [true, false],
  ] as const) {
    let cuts = costs.peers.flatMap((peer) => cutOf(costs, plan, peer, isHidden ? firstForward(costs, plan, peer) : 0));
    if (cuts.length === 0) continue;
    const made = (of: readonly Cut[]): Plan =>
      of.reduce((moved, { id, elements }) => moreInMainMemory(moved, id, elements, mayCut), plan);
    let tried = made(cuts);
    let takes = seconds(tried);
    for (const cut of cuts.length > 1 && cuts.length <= MOST_TRIED ? cuts : []) {
      const fewer = cuts.filter((other) => other !== cut);
      const without = made(fewer);
      const now = seconds(without);
      if (now <= takes) [cuts, tried, takes] = [fewer, without, now];
    }
    if (takes < least) [best, least] = [tried, takes];
  }
  return least <= (1 - LEAST_GAIN) * bare ? best : null;
}

/** The same state on GPUs alone; null: they have no room for it. */
function onGpusAlone(costs: ClusterCosts, plan: Plan): Plan | null {
  const state = plan.state.map(({ block, shards }) => ({
    block,
    shards: shards.map(({ in: _, ...shard }) => shard),
  }));
  const alone = { ...plan, state };
  return memoryWithin(costs, alone) && alone;
}

interface Cut {
  readonly id: PeerId;
  /** That go to main memory. */
  readonly elements: number;
}

/** Seconds of the longest that a peer's stages take for their first micro-batch. */
function firstForward(costs: ClusterCosts, plan: Plan, peer: PlannedPeer): number {
  const seconds = plan.stages.map(({ members }, stage) => {
    const first = members.find(({ peer: id }) => id === peer.id)?.microBatches[0];
    const samples = plan.microBatches.find(({ id }) => id === first)?.samples;
    if (!samples) return 0;
    return costs.forwardSeconds(peer, shapeOf(plan, stage), countIn(samples));
  });
  return Math.max(...seconds);
}

function cutOf(costs: ClusterCosts, plan: Plan, peer: PlannedPeer, hiddenSeconds: number): Cut[] {
  const inHost = hostBytes(plan, peer.id, undefined) / HOST_ELEMENT_BYTES;
  let kept = 0;
  for (const { shards } of plan.state)
    for (const { peer: primary, range } of shards) if (primary === peer.id) kept += countIn(range);
  const wanted = Math.min(sharedElements(costs, peer, kept, hiddenSeconds), costs.hostElements(peer));
  return wanted > inHost ? [{ id: peer.id, elements: wanted - inHost }] : [];
}

type Found = Result<ClusterPlan>;
type SearchFor = (problem: ClusterProblem) => Found | Promise<Found>;

/**
 * Plans of two clusters that are compared: as it is, and as an edit makes it. Two searches that do not know of each other
 * differ by their luck, so that a cluster may seem slower for a peer more. So each cluster is tried with the other's plan.
 */
export async function comparedPlans(
  before: ClusterProblem,
  after: ClusterProblem,
  search: SearchFor,
): Promise<{ readonly before: Found; readonly after: Found }> {
  const [first, second] = [await search(before), await search(after)];
  return {
    before: await shorter(before, first, second, search),
    after: await shorter(after, second, first, search),
  };
}

async function shorter(problem: ClusterProblem, own: Found, other: Found, search: SearchFor): Promise<Found> {
  if (!other.ok) return own;
  const tried = { ...problem, inForce: other.value.plan };
  if (!own.ok) return search(tried);
  const found = planCluster(tried, () => false);
  // As the search compares plans: without replicas, of which they may have different numbers.
  const [costs, bare] = [clusterCosts(problem), ({ plan }: ClusterPlan) => withoutReplicas(plan)];
  const seconds = (of: ClusterPlan): number => forecast(costs, bare(of)).stepSeconds;
  // Where the other's plan does not fit, another was found: one that the other cluster does not have.
  const isSame = found.ok && JSON.stringify(bare(found.value)) === JSON.stringify(bare(other.value));
  return isSame && seconds(found.value) < seconds(own.value) ? found : own;
}
