/**
 * What a plan would take on a cluster: its schedule through the simulator (Varuna: try candidates by simulating them),
 * then the exchange of state. The step has one barrier, the commit. Everyone's backwards and gradient slices come
 * before it, updates and the new values after it, so the exchange is worked out beside the simulation:
 *   step = max over peers (end of its work + its slices) + max over peers (its update + the values it waits for),
 * each with one way to the server: the report goes up, the commit and the next step's start come down together.
 * What is updated in main memory is waited for where others compute with it, else by the next step's first forwards.
 * Values for replicas travel beside the next step's work: it ends no sooner than a peer's line has carried both. Who keeps state and computes nothing is waited for as everyone else.
 * A peer's upload is one line for all that it hands on, where no link of it is slower; its download is shared out evenly over
 * those who hand it something, which is on the safe side.
 * Whoever looks at a step sees the same parts: what goes beside its work is said in the words of measured spans.
 */
import {
  addToKey,
  at,
  countIn,
  countInBoth,
  float,
  got,
  int,
  overlap,
  type PeerId,
  pushToKey,
  type Range,
  totalOf,
} from '../base.ts';
import { SLACK_SECONDS } from '../limits.ts';
import { inUpdateOrder, isPassedOn, shardsOf } from '../memory/memory.ts';
import { type BlockName, blocksOfStage, type Model } from '../model/model.ts';
import { codedParts, holdsPart } from '../plan/codedState.ts';
import { passesOf } from '../plan/layered.ts';
import { gatheringHome, holders, homeStage, keepersOf, owner, type Plan, peers, samplesById } from '../plan/plan.ts';
import type { PlanLink } from '../plan/planLink.ts';
import { sumParts } from '../plan/tokenRows.ts';
import type { Action, Schedule } from '../schedule/action.ts';
import { type WorkGraph, workGraph } from '../schedule/graph.ts';
import { addRecompute, build } from '../schedule/lower.ts';
import { wiring } from '../schedule/order.ts';
import { policyOf, policyWork } from '../schedule/ownOrder.ts';
import { againAhead } from '../schedule/recompute.ts';
import type { Costs } from '../simulate/clock.ts';
import type { LinkCost } from '../simulate/links.ts';
import { simulateEnds, simulateGraph } from '../simulate/simulate.ts';
import type { BesideAction, BesideSpan } from '../timeline/beside.ts';
import { type Interval, lengthSeconds, type Span, type Timeline } from '../timeline/timeline.ts';
import { packedBytes } from '../wire.ts';
import {
  arrivedSeconds,
  type ByteFlow,
  type ClusterCosts,
  downloadFrom,
  flow,
  flowSeconds,
  type PlannedPeer,
  type StageShape,
  sharedIn,
  turnLines,
  uploadTo,
  withoutTurns,
  withTurns,
} from './clusterCosts.ts';
import { type Gathers, gathersOf } from './gathering.ts';

interface PeerForecast {
  readonly busySeconds: number;
  readonly sentBytes: number;
}

export interface Forecast {
  readonly stepSeconds: number;
  /** Seconds after the commit, and of slices before it, at the peer that takes longest. */
  readonly stateSeconds: number;
  readonly peers: ReadonlyMap<PeerId, PeerForecast>;
  readonly exchange: {
    /** All have reported, and the server knows it. */
    readonly committedSeconds: number;
    readonly peers: readonly Exchange[];
  };
}

/**
 * Of one peer, in seconds: when its slices are sent, what that takes, its updates on the GPU and in main memory, of them what
 * goes before its new values, and these out and in.
 */
interface Exchange {
  readonly place: number;
  readonly reportedSeconds: number;
  readonly reduce: number;
  readonly onGpu: number;
  readonly onHost: number;
  readonly updated: number;
  readonly passed: number;
}

export const shapeOf = (plan: Plan, stage: number): StageShape => {
  const [from, to] = plan.stages[stage]?.layers ?? [0, 0];
  return { first: stage === 0, last: stage === plan.stages.length - 1, layers: to - from };
};

const LEAST_GAIN = 0.01; // a part of a step: who takes turns waits for others
/** Steps that are simulated one after the other where peers rest: how rested they begin one depends on the one before. */
const STEPS = 3;

interface Simulation {
  readonly graph: WorkGraph;
  readonly gathers: Gathers;
  readonly times: Costs;
  readonly forecast: Forecast;
}

/** A step as it is after some others. */
function simulation(all: ClusterCosts, plan: Plan, built: Schedule): Simulation {
  const costs = sharedIn(all, plan);
  const policy = policyOf(plan) ?? undefined;
  const schedule = policy ? policyWork(plan, built) : addRecompute(plan, built);
  const graph = workGraph(wiring(costs.model, plan, schedule), schedule);
  const pipeline = pipelineFlow(costs, plan);
  const exchange = stateExchange(costs, plan);
  const gathers = gathersOf(costs, plan, pipeline);
  const times = simulationCosts(costs, plan, pipeline, gathers);
  const step = (of: Costs) => {
    const ends = simulateEnds(graph, of, policy);
    return { ends, forecast: withExchange(costs, plan, graph, ends, { pipeline, gathers, ...exchange }) };
  };
  const { rest } = times;
  let current = { graph, gathers, times, ...step(times) };
  if (!rest) return current;
  for (let count = 1; count < STEPS; count++) {
    const { ends, forecast } = current;
    const rested = new Map(
      graph.peers.map((peer, at) => {
        const seconds = float(ends.restedSeconds, at) - forecast.stepSeconds;
        return [peer, Math.min(0, Math.max(-SLACK_SECONDS, seconds))];
      }),
    );
    const after = { ...times, rest: { ...rest, restedSeconds: (peer: PeerId) => got(rested, peer) } };
    current = { graph, gathers, times: after, ...step(after) };
  }
  return current;
}

/** A step as it is predicted: its work on micro-batches, and all that stands beside that. */
interface PredictedStep extends Omit<Simulation, 'graph'> {
  readonly timeline: Timeline;
}

export function predictedStep(costs: ClusterCosts, plan: Plan): PredictedStep {
  const { graph, ...simulated } = simulation(costs, plan, build(plan));
  return { ...simulated, timeline: simulateGraph(graph, simulated.times, policyOf(plan) ?? undefined) };
}

/** `built` is the plan's schedule as its builder writes it, for whoever has it already. */
export const forecast = (costs: ClusterCosts, plan: Plan, built: Schedule = build(plan)): Forecast =>
  simulation(costs, plan, built).forecast;

/** All that goes from peer to peer in a step. */
interface StepFlows extends ReturnType<typeof stateExchange> {
  readonly pipeline: ByteFlow;
  readonly gathers: Gathers;
}

/** With the state that goes from peer to peer, of a step whose work ends then. */
function withExchange(
  costs: ClusterCosts,
  plan: Plan,
  graph: WorkGraph,
  ends: ReturnType<typeof simulateEnds>,
  { pipeline, gathers, slices, values, copies, kept, hosted, updates }: StepFlows,
): Forecast {
  const { seconds, endSeconds } = ends;
  const forwardSeconds = (peer: PlannedPeer, stage: number, shape: StageShape, samples: number): number =>
    (gathers.stages[stage] ?? costs).forwardSeconds(peer, shape, samples);
  let committed = 0;
  let after = 0;
  let mostSlices = 0;
  const exchange: Exchange[] = [];
  const found = new Map<PeerId, PeerForecast>();
  const workEnds = new Map<number, number>();
  const count = (place: number, busy: number, reportedSeconds: number, reduce: number): void => {
    const peer = at(costs.peers, place);
    const inHost = hosted.get(place) ?? 0;
    const onGpu = costs.updateSeconds(peer, (kept.get(place) ?? 0) - inHost);
    const [summed, onHost] = [costs.hostSumSeconds(peer, inHost), costs.hostUpdateSeconds(peer, inHost)];
    const own = updates.get(peer.id) ?? null;
    const elementSeconds = costs.hostUpdateSeconds(peer, 1);
    const updated = Math.max(onGpu, (own?.passedOn ?? 0) * elementSeconds);
    const passed = flowSeconds(costs, place, values);
    const step = { plan, graph, ends, forwardSeconds };
    const awaited = own && valuesAwaited(step, peer, own, elementSeconds, updated + passed);
    exchange.push({ place, reportedSeconds, reduce, onGpu, onHost, updated, passed });
    committed = Math.max(committed, reportedSeconds + summed + peer.serverSeconds);
    mostSlices = Math.max(mostSlices, reduce + summed);
    after = Math.max(after, peer.serverSeconds + updated + passed + (awaited ?? 0));
    const sent = totalOf([pipeline, gathers.sent, slices, values, copies], (flow) => flow.sentBy(place));
    found.set(peer.id, { busySeconds: busy + Math.max(onGpu, onHost), sentBytes: sent });
  };
  for (const [index, id] of graph.peers.entries()) {
    const place = costs.placeOf(id);
    const [from, to] = [int(graph.listFrom, index), int(graph.listFrom, index + 1)];
    if (!costs.peers[place] || from === to) continue;
    let [busy, end] = [0, 0];
    for (let work = from; work < to; work++) {
      busy += float(seconds, work);
      end = Math.max(end, float(endSeconds, work));
    }
    workEnds.set(place, end);
    const copied = flowSeconds(costs, place, copies);
    if (copied > 0) end = Math.max(end, copied + flowSeconds(costs, place, pipeline));
    const reduce = flowSeconds(costs, place, slices);
    count(place, busy, end + reduce, reduce);
  }
  // Who computes nothing has the slices once those who compute have sent them, one after the other.
  for (const place of kept.keys()) {
    if (workEnds.has(place) || !costs.peers[place]) continue;
    const copied = flowSeconds(costs, place, copies);
    count(place, 0, Math.max(arrivedSeconds(costs, place, slices, workEnds), copied), 0);
  }
  const times = { stepSeconds: committed + after, stateSeconds: mostSlices + after, peers: found };
  return { ...times, exchange: { committedSeconds: committed, peers: exchange } };
}

/** The plan, with turns on lines that its peers share where its step is shorter by them. */
export function takingTurns(costs: ClusterCosts, plan: Plan): Plan {
  const plain = plan.lines ? withoutTurns(plan) : plan;
  const turning = withTurns(costs, plain, pipelineFlow(costs, plan));
  if (turning === null) return plain;
  const limit = (1 - LEAST_GAIN) * forecast(costs, plain).stepSeconds;
  return forecast(costs, turning).stepSeconds < limit ? turning : plain;
}

/** The connections that a forecast of this plan counts on, where one alone would be slower. */
export function linksCountedOn(costs: ClusterCosts, plan: Plan): PlanLink[] {
  const pipeline = pipelineFlow(costs, plan);
  const { slices, values } = stateExchange(costs, plan);
  const flows = [pipeline, gathersOf(costs, plan, pipeline).sent, slices, values];
  return peers(plan).flatMap((from) => {
    const place = costs.placeOf(from);
    const others = new Set(flows.flatMap((flow) => [...flow.from(place).keys()]));
    return [...others]
      .sort((a, b) => a - b)
      .map((other): PlanLink => ({ from, to: at(costs.peers, other).id, streams: costs.linkAt(place, other).streams }))
      .filter(({ streams }) => streams > 1);
  });
}

/** Who hands activations and gradients to whom. */
function pipelineFlow(costs: ClusterCosts, plan: Plan): ByteFlow {
  const owners = plan.stages.map(({ members }) => {
    const own = new Map<number, number>();
    for (const { peer, microBatches } of members) for (const id of microBatches) own.set(id, costs.placeOf(peer));
    return own;
  });
  const found = flow();
  const sizes = samplesById(plan);
  const sampleBytes = costs.sampleBytesIn(plan);
  for (let stage = 1; stage < owners.length; stage++) {
    for (const [id, samples] of sizes) {
      const [a, b] = [owners[stage - 1]?.get(id), owners[stage]?.get(id)];
      if (a === undefined || b === undefined || a === b || a < 0 || b < 0) continue;
      const [one, other] = [at(costs.peers, a).id, at(costs.peers, b).id];
      found.add(a, b, samples * sampleBytes(one, other));
      found.add(b, a, samples * sampleBytes(other, one));
    }
  }
  return found;
}

/** Layers that a peer computes again: ahead of the backward, where that is work of its own, and with it. */
function layersAgain(costs: ClusterCosts, plan: Plan, gathers: Gathers) {
  const again = plan.stages.map(({ members }) => new Map(members.map(({ peer, recompute }) => [peer, recompute])));
  const againBy = (stage: number, peer: PeerId): readonly number[] => again[stage]?.get(peer) ?? [];
  // In an order that follows messages what is computed again is no work of its own, unless the policy says when.
  const last = plan.stages.length - 1;
  const inOrder = policyOf(plan) === null;
  const isApart = (stage: number): boolean => inOrder || (plan.schedule === 'varuna' && stage < last);
  /** Of what is gathered the first layer is ahead of its backward in name only. */
  const early = (stage: number, peer: PeerId, samples: number): number =>
    againAhead(againBy(stage, peer)) * (gathers.stages[stage] ? 1 : costs.aheadShare(samples));
  const inBackward = (stage: number, peer: PeerId, samples: number): number => {
    const layers = againBy(stage, peer).length;
    return isApart(stage) ? layers - early(stage, peer, samples) : layers;
  };
  return { early, inBackward };
}

/** Each link, and the lines on which what a peer hands on takes turns. */
function linkCosts(
  costs: ClusterCosts,
  plan: Plan,
  pipeline: ByteFlow,
  gathers: Gathers,
): Pick<Costs, 'lines' | 'link'> {
  const links = new Map<number, LinkCost>();
  // Caps are shared by all to whom a peer hands something; those with whom it gathers are one more.
  const partners = (place: number): number => pipeline.partners(place) + (gathers.sent.partners(place) > 0 ? 1 : 0);
  const download = (place: number): number => at(costs.peers, place).download / (partners(place) || 1);
  const shared = turnLines(costs, plan, pipeline);
  /** Places in the list of lines, of those on whose own line what they hand on takes turns: no link of theirs is slower than it. */
  const lineOf = new Map<number, number>();
  for (const [place, { upload }] of costs.peers.entries()) {
    if (shared.lineOf.has(place)) continue;
    const others = [...pipeline.from(place).keys()];
    const most = (other: number) => Math.min(costs.linkAt(place, other).bytesPerSecond ?? upload, download(other));
    if (others.length === 0 || upload === Infinity || gathers.sent.partners(place) > 0) continue;
    if (others.every((other) => most(other) >= upload)) lineOf.set(place, shared.lines.length + lineOf.size);
  }
  const rates = [...lineOf.keys()].map((place) => at(costs.peers, place).upload);
  const lineBetween = (from: number, to: number): number | undefined => {
    const turns = shared.lineOf.get(from);
    return turns === undefined ? lineOf.get(from) : turns.mates.has(to) ? undefined : turns.line;
  };
  return {
    lines: [...shared.lines, ...rates.map((bytesPerSecond) => ({ sharing: 'turns' as const, bytesPerSecond }))],
    link(sender, receiver) {
      const [a, b] = [costs.placeOf(sender), costs.placeOf(receiver)];
      const [from, to] = [costs.peers[a], costs.peers[b]];
      const key = a * costs.peers.length + b;
      const recorded = links.get(key);
      if (recorded) return recorded;
      const { latencySeconds, bytesPerSecond } = costs.linkAt(a, b);
      const rate = Math.min(
        bytesPerSecond ?? Infinity,
        from && to ? uploadTo(from, to) / (partners(a) || 1) : Infinity,
        from && to ? downloadFrom(to, from) / (partners(b) || 1) : Infinity,
      );
      const line = lineBetween(a, b);
      const cost: LinkCost = {
        latencySeconds,
        bytesPerSecond: rate === Infinity ? null : rate,
        ...(line !== undefined && { line }),
      };
      links.set(key, cost);
      return cost;
    },
  };
}

function simulationCosts(costs: ClusterCosts, plan: Plan, pipeline: ByteFlow, gathers: Gathers): Costs {
  const sizes = samplesById(plan);
  const size = (id: number): number => got(sizes, id);
  const shapes = plan.stages.map((_, stage) => shapeOf(plan, stage));
  const { early, inBackward } = layersAgain(costs, plan, gathers);
  const sampleBytes = costs.sampleBytesIn(plan);
  const owners = plan.stages.map(
    ({ members }) =>
      new Map(members.flatMap(({ peer, microBatches }) => microBatches.map((id) => [id, peer] as const))),
  );
  /** Of a micro-batch from its owner in one stage to the one in another. */
  const bytes = (from: number, to: number, id: number): number =>
    size(id) * sampleBytes(got(at(owners, from), id), got(at(owners, to), id));
  // Asked for each action and message: by number, not by text.
  const timed = (seconds: (peer: PlannedPeer, shape: StageShape, samples: number, stage: number) => number) => {
    const known = new Map<number, number>();
    return (stage: number, id: number, peer: PeerId): number => {
      const [samples, place] = [size(id), costs.placeOf(peer)];
      const key = (samples * shapes.length + stage) * costs.peers.length + place;
      const recorded = known.get(key);
      if (recorded !== undefined) return recorded;
      const [own, shape] = [costs.peers[place], shapes[stage]];
      const found = own && shape ? seconds(own, shape, samples, stage) : 0;
      known.set(key, found);
      return found;
    };
  };
  const restSeconds = (id: PeerId, seconds: number, action: Action): number => {
    const peer = costs.peers[costs.placeOf(id)];
    if (!peer || (action.op !== 'F' && action.op !== 'B')) return (peer?.rest ?? 0) * seconds;
    const { op, stage, microBatch } = action;
    const [gathering, shape] = [gathers.stages[stage], shapes[stage]];
    if (!gathering || !shape) return peer.rest * seconds;
    const again = op === 'B' ? costs.layerSeconds(peer, size(microBatch)) * inBackward(stage, id, size(microBatch)) : 0;
    return gathering.restSeconds[op](peer, shape, size(microBatch)) + peer.rest * again;
  };
  return {
    ...linkCosts(costs, plan, pipeline, gathers),
    forwardSeconds: timed((peer, shape, samples, stage) =>
      (gathers.stages[stage] ?? costs).forwardSeconds(peer, shape, samples),
    ),
    backwardSeconds: timed(
      (peer, shape, samples, stage) =>
        (gathers.stages[stage] ?? costs).backwardSeconds(peer, shape, samples) +
        costs.layerSeconds(peer, samples) * inBackward(stage, peer.id, samples),
    ),
    recomputeSeconds: timed(
      (peer, _, samples, stage) =>
        // What is gathered is computed again when it is there for its backward.
        costs.layerSeconds(peer, samples) * early(stage, peer.id, samples),
    ),
    ...(costs.peers.some(({ rest }) => rest > 0) && {
      rest: { seconds: restSeconds, slackSeconds: SLACK_SECONDS },
    }),
    activationBytes: (stage, id) => bytes(stage, stage + 1, id),
    gradientBytes: (stage, id) => bytes(stage, stage - 1, id),
  };
}

/** Gradient slices from every holder to the shard's keepers, values from its primary to holders, copies of them to replicas; elements that each one keeps, and those of them in main memory, with their updates. */
function stateExchange(costs: ClusterCosts, plan: Plan) {
  const { model } = costs;
  const [slices, values, copies] = [flow(), flow(), flow()];
  const encoding = plan.stateWire ?? 'f32';
  const [kept, hosted] = [new Map<number, number>(), new Map<number, number>()];
  const uses = plan.stages.flatMap((stage, index) => {
    const members = stage.members.map(({ peer }) => ({ peer, stage: index }));
    return blocksOfStage(model, stage.layers)
      .filter(({ block }) => gatheringHome(plan, block) !== stage)
      .map((use) => ({ ...use, members }));
  });
  const usesOf = new Map<string, typeof uses>();
  for (const use of uses) pushToKey(usesOf, use.block, use);
  for (const { block, shards } of plan.state) {
    for (const shard of shards) {
      const { range } = shard;
      const primary = costs.placeOf(shard.peer);
      const keepers = keepersOf(shard).map(costs.placeOf);
      const elements = countIn(range);
      const codes = plan.stateWire && codedParts(usesOf.get(block) ?? [], range);
      // Who computes with all of it gets its values anyway.
      const served = new Set([primary]);
      for (const keeper of keepers)
        for (const of of shard.in === 'host' ? [kept, hosted] : [kept]) addToKey(of, keeper, elements);
      for (const { members, ranges } of usesOf.get(block) ?? []) {
        const used = totalOf(ranges, (part) => countInBoth(part, range));
        if (used === 0) continue;
        const bytes = (parts: readonly Range[]): number =>
          totalOf(parts, (part) => packedBytes(encoding, countIn(part)));
        const own = ranges.map((part) => overlap(part, range)).filter((part) => part !== null);
        const back = bytes(codes ? codes.filter((part) => holdsPart({ ranges }, part)) : own);
        for (const member of members) {
          const holder = costs.placeOf(member.peer);
          const rows = plan.rows === undefined ? null : sumParts(model, plan, member, { block, ranges }, range);
          const sent = bytes(rows?.map((part) => part.range) ?? own);
          for (const keeper of keepers) if (holder !== keeper) slices.add(holder, keeper, sent);
          if (holder !== primary) values.add(primary, holder, back);
          if (used === elements) served.add(holder);
        }
      }
      if (plan.stateWire) continue; // replicas update masters of their own
      for (const keeper of keepers)
        if (!served.has(keeper)) copies.add(primary, keeper, packedBytes(encoding, elements));
    }
  }
  const inMemory = [...hosted.keys()].flatMap((place) => costs.peers[place]?.id ?? []);
  return { slices, values, copies, kept, hosted, updates: hostUpdates(model, plan, inMemory) };
}

/** Of one peer, in elements. */
interface HostUpdates {
  readonly passedOn: number;
  /** What a stage of its own computes with, after all that comes before it. */
  readonly own: readonly { readonly stage: number; readonly block: BlockName; readonly until: number }[];
}

/**
 * What updates in main memory add to a step (after Deep Optimizer States, Maurya et al., Middleware '24). They begin with the
 * commit, one shard after the other (`inUpdateOrder`). What others compute with is passed on once it is updated; all else is
 * updated beside what comes next, and the first forward of the next step waits at each block for its values.
 *
 * Of every peer that updates something in main memory.
 */
function hostUpdates(model: Model, plan: Plan, peers: Iterable<PeerId>): Map<PeerId, HostUpdates> {
  const known = holders(model, plan);
  return new Map(
    Array.from(peers, (peer) => {
      let [passedOn, until] = [0, 0];
      const own: HostUpdates['own'][number][] = [];
      for (const { work } of inUpdateOrder(shardsOf(model, plan, peer, known).map((work) => ({ work })))) {
        until += countIn(work.range);
        const stage = work.isGathered && work.isPrimary ? homeStage(plan, work.block) : work.valuesStage;
        if (isPassedOn(work)) passedOn = until;
        else if (stage !== null && !work.isCoded) own.push({ stage, block: work.block, until });
      }
      return [peer, { passedOn, own }];
    }),
  );
}

interface Step {
  readonly plan: Plan;
  readonly graph: WorkGraph;
  readonly ends: ReturnType<typeof simulateEnds>;
  readonly forwardSeconds: (peer: PlannedPeer, stage: number, shape: StageShape, samples: number) => number;
}

/**
 * So long a peer's first forwards of a step stand still for values, at most; an element takes `elementSeconds`, and the step
 * begins `begins` seconds after its updates.
 */
function valuesAwaited(
  { plan, graph, ends, forwardSeconds }: Step,
  peer: PlannedPeer,
  { own }: HostUpdates,
  elementSeconds: number,
  begins: number,
): number {
  let most = 0;
  const first = new Map<number, FirstForward>();
  for (const { stage, block, until } of own) {
    const begun = first.get(stage) ?? firstForward(plan, graph, ends, peer.id, stage);
    first.set(stage, begun);
    const before = shapeBefore(plan, stage, block);
    const reached = begins + begun.startSeconds + forwardSeconds(peer, stage, before, begun.samples);
    most = Math.max(most, until * elementSeconds - reached);
  }
  return most;
}

interface FirstForward {
  readonly startSeconds: number;
  readonly samples: number;
}

/** Of a stage; of a layered one its micro-batches go through each block together. */
function firstForward(
  plan: Plan,
  { peers, listFrom, actions }: WorkGraph,
  { seconds, endSeconds }: Step['ends'],
  peer: PeerId,
  stage: number,
): FirstForward {
  let startSeconds = Infinity;
  let first: number | null = null;
  const place = peers.indexOf(peer);
  for (let work = int(listFrom, place); work < int(listFrom, place + 1); work++) {
    const action = actions[work];
    if (action?.op !== 'F' || action.stage !== stage) continue;
    const begun = float(endSeconds, work) - float(seconds, work);
    if (begun >= startSeconds) continue;
    startSeconds = begun;
    first = action.microBatch;
  }
  const planned = plan.stages[stage];
  const member = planned?.members.find((one) => one.peer === peer);
  const together = planned && member ? passesOf(planned, member).find((pass) => pass.some((id) => id === first)) : [];
  const samples = totalOf(plan.microBatches, (one) => (together?.includes(one.id) ? countIn(one.samples) : 0));
  return { startSeconds, samples };
}

/** What a stage computes before it comes to this block. */
function shapeBefore({ stages }: Plan, stage: number, block: BlockName): StageShape {
  const [from, to] = stages[stage]?.layers ?? [0, 0];
  const first = stage === 0;
  if (block === 'embedding') return { first: false, last: false, layers: 0 };
  const layers = block === 'head' ? to - from : Number(block.slice('layer.'.length)) - from;
  return { first, last: false, layers };
}

/**
 * What a predicted step has beside its work on micro-batches, in the words of measured spans: what is handed on, layers that
 * are gathered, slices, updates and new values. A send lasts as long as it does on a line that has nothing else to carry.
 */
export const predictedBeside = (costs: ClusterCosts, plan: Plan, step: PredictedStep): BesideSpan[] =>
  [
    ...step.timeline.flatMap((span) => ofWork(plan, step, span)),
    ...sumsOfGathered(costs, plan, step),
    ...ofState(costs, plan, step),
  ].filter((span) => lengthSeconds(span) > 0);

/** The gathers that a forward or a backward waits for, and where its outcome goes. */
function ofWork(plan: Plan, { times, gathers, timeline }: PredictedStep, span: Span): BesideSpan[] {
  const { peer, action, startSeconds } = span;
  if (action.op !== 'F' && action.op !== 'B') return [];
  const { op, stage, microBatch } = action;
  const found: BesideSpan[] = [];
  const gathering = gathers.stages[stage];
  const pass = gathering ? passOf(plan, timeline, span) : null;
  if (gathering && pass) {
    const [from, to] = at(plan.stages, stage).layers;
    const endSeconds = Math.min(pass.endSeconds, startSeconds + gathering.gatherSeconds(op, to - from));
    found.push({ peer, action: { op: `GATHER_${op}`, stage, microBatch }, startSeconds, endSeconds });
  }
  const next = stage + (op === 'F' ? 1 : -1);
  const receiver = next < 0 || next >= plan.stages.length ? peer : owner(plan, next, microBatch);
  if (receiver === peer) return found;
  const { latencySeconds, bytesPerSecond } = times.link(peer, receiver, action);
  const bytes = (op === 'F' ? times.activationBytes : times.gradientBytes)(stage, microBatch);
  // Who gives a share of its time rests after it has handed on.
  const sent = span.endSeconds - (times.rest?.seconds(peer, lengthSeconds(span), action) ?? 0);
  const endSeconds = sent + latencySeconds + (bytesPerSecond === null ? 0 : bytes / bytesPerSecond);
  return [...found, { peer, action: { op: `SEND_${op}`, stage, microBatch }, startSeconds: sent, endSeconds }];
}

/** The span of a micro-batch by itself; of those that pass together all of it, by the first one alone. */
function passOf(plan: Plan, timeline: Timeline, span: Span): Interval | null {
  const { op } = span.action;
  const [stage] = plan.stages;
  if (!stage?.layered) return span;
  const own = timeline.filter(({ peer, action }) => peer === span.peer && action.op === op);
  return own[0] === span ? { ...span, endSeconds: at(own, own.length - 1).endSeconds } : null;
}

/** What is gathered sends its gradients as they are made, unit by unit, from the first of a step to the last; the head's at its forward's end. */
function sumsOfGathered(costs: ClusterCosts, plan: Plan, { gathers, timeline }: PredictedStep): BesideSpan[] {
  return plan.stages.flatMap(({ members, layered }, stage) => {
    const gathering = gathers.stages[stage];
    if (!gathering || gathering.sumSeconds.layer === 0) return [];
    return members.flatMap(({ peer }): BesideSpan[] => {
      const own = timeline.flatMap(({ action, ...span }): Pass[] =>
        span.peer === peer && (action.op === 'F' || action.op === 'B') && action.stage === stage
          ? [{ ...span, op: action.op, microBatch: action.microBatch }]
          : [],
      );
      const first = (op: Pass['op']) => own.find((pass) => pass.op === op);
      const forward = layered ? own.findLast(({ op }) => op === 'F') : first('F');
      const backward = first('B');
      const last = own.findLast(({ op }) => op === 'B');
      if (!forward || !backward || !last) return [];
      const { head } = gathering.sumSeconds;
      const startSeconds = head === null ? firstLayerSum(costs, plan, gathering, backward) : forward.endSeconds - head;
      return [{ peer, action: { op: 'REDUCE', stage }, startSeconds, endSeconds: last.endSeconds }];
    });
  });
}

/** A forward or a backward of a stage. */
interface Pass extends Interval {
  readonly peer: PeerId;
  readonly op: 'F' | 'B';
  readonly microBatch: number;
}

type Gathering = NonNullable<PredictedStep['gathers']['stages'][number]>;

/** Once a layer was gathered and computed back. */
function firstLayerSum(
  costs: ClusterCosts,
  { stages, microBatches }: Plan,
  { gatherSeconds }: Gathering,
  { peer, microBatch, startSeconds }: Pass,
): number {
  const layer = { first: false, last: false, layers: 1 };
  const own = stages[0]?.layered ? stages[0].members.find((member) => member.peer === peer)?.microBatches : undefined;
  const together = new Set(own ?? [microBatch]);
  const computed = totalOf(microBatches, ({ id, samples }) =>
    together.has(id) ? costs.backwardSeconds(at(costs.peers, costs.placeOf(peer)), layer, countIn(samples)) : 0,
  );
  return startSeconds + gatherSeconds('B', 1) + computed;
}

/** Slices before the commit, updates and values after it. */
function ofState(costs: ClusterCosts, plan: Plan, { forecast }: PredictedStep): BesideSpan[] {
  const { committedSeconds, peers } = forecast.exchange;
  return peers.flatMap(({ place, reportedSeconds, reduce, onGpu, onHost, updated, passed }) => {
    const { id: peer, serverSeconds } = at(costs.peers, place);
    const span = (action: BesideAction, startSeconds: number, seconds: number): BesideSpan => ({
      ...{ peer, action, startSeconds, endSeconds: startSeconds + seconds },
    });
    const isOwn = ({ members }: Plan['stages'][number]): boolean => members.some((member) => member.peer === peer);
    const stage = plan.stages.findIndex(isOwn);
    const whole = plan.stages.findIndex((one) => isOwn(one) && !one.gathered);
    const begun = committedSeconds + serverSeconds;
    return [
      ...(whole < 0 ? [] : [span({ op: 'REDUCE', stage: whole }, reportedSeconds - reduce, reduce)]),
      span({ op: 'UPDATE' }, begun, onGpu),
      span({ op: 'UPDATE_HOST' }, begun, onHost),
      span(stage < 0 ? { op: 'SEND_V' } : { op: 'GATHER', stage }, begun + updated, passed),
    ];
  });
}
