/**
 * What a piece of the model costs each peer of a cluster: seconds and bytes. A peer's measured times win over any peak
 * rate (estimates from peak rates were found 69 % off, Sailor on FlashFlex); only what was not measured, the embedding
 * and the head, is scaled from a layer by its FLOPs, counted from the model's own rows.
 * What goes from peer to peer costs by the lines of both (ByteFlow), which several peers may share.
 */
import { addToKey, arrayOf, at, got, invariant, type PeerId, peerId, pushToKey, total, totalOf } from '../base.ts';
import {
  type Batch,
  type BufferLimit,
  type BufferLimits,
  excess,
  type Largest,
  largestOfRun,
  largestOfStage,
  neededOf,
  oversized,
  takes,
} from '../memory/bufferLimits.ts';
import { type StageSize, slotName, stageBuffers } from '../memory/memory.ts';
import type { Model, Operation } from '../model/model.ts';
import { endOf, lowWidth, runRowsOf } from '../model/program.ts';
import type { OwnEnds } from '../plan/ends.ts';
import { type Plan, peers } from '../plan/plan.ts';
import { type PlanLine, takesTurns, wireBetween } from '../plan/planLink.ts';
import { COMPUTE_PRECISIONS, type Compute } from '../precision.ts';
import type { Islands } from '../run/runFile.ts';
import { lineTurns } from '../simulate/lineTurns.ts';
import type { LineCost } from '../simulate/sharedLine.ts';
import { INT8_BLOCK, packedBytes, type RunWire, tightestWire, WIRE_ENCODINGS, type WireEncoding } from '../wire.ts';
import { type Cluster, type ClusterLink, type ClusterPeer, linkTable } from './cluster.ts';
import { ASSUMED_SPEED, HOST_ELEMENT_BYTES, type MainMemorySpeed } from './mainMemory.ts';
import { type Curve, curveAt, extended } from './sizing.ts';

/** A gradient of the input and one of the weights. */
const BACKWARD_FORWARDS = 2;
/** AdamW reads and writes its state: about so many FLOPs an element. */
const UPDATE_FLOPS = 16;

/** Where a donor is, as far as that is known. */
interface Site {
  /** A name of its network; null: not known. */
  readonly network: string | null;
  /** A name of its browser. */
  readonly browser: string | null;
  /** It came a moment ago, and may go as soon; absent: it did not. */
  readonly isNew?: boolean;
}

export interface ReplicaWish {
  readonly count: number;
  /** A person said so: the step may take as long as it takes. */
  readonly isAsked: boolean;
  /** By peer; whoever is not in it is taken to be far from all others. */
  readonly sites: Readonly<Record<string, Site>>;
  /** Whose keepers have the state. */
  readonly before: Plan | null;
}

/** A run on a cluster, as the planner sees it. */
export interface ClusterProblem {
  readonly model: Model;
  /** B samples of T positions. */
  readonly batch: {
    readonly samples: number;
    readonly sequence: number;
    readonly wire?: RunWire;
    readonly compute?: Compute;
    readonly stateWire?: NonNullable<Plan['stateWire']>;
    readonly islands?: Islands;
    /** Only peers of the operator's own have the first and last stage; absent: anyone may. */
    readonly ends?: 'own';
  };
  readonly cluster: Cluster;
  /** What no plan may do, to say what it gains. */
  readonly without?: 'gathering' | 'mainMemory';
  /** Shares of their GPU's time that peers give, where that is less than all: the rest follows each piece of work. */
  readonly shares?: ReadonlyMap<string, number>;
  /** How peers compute, where that is known. In a run that asks for f16 others may have halves or not. */
  readonly computes?: ReadonlyMap<string, Compute>;
  /** One way from each peer to the server, where that is known: reports go there, and each commit comes from there. */
  readonly serverSeconds?: ReadonlyMap<string, number>;
  /** How fast peers update state in main memory, where they measured it. */
  readonly mainMemory?: ReadonlyMap<string, MainMemorySpeed>;
  /** The search begins with it too, so that what is found is no worse. */
  readonly inForce?: Plan;
  /** Bytes an element that its primary has beside value, gradient and moments: planes of islands. */
  readonly planeBytes?: number;
  /** Of each shard of the plan that is found; absent: none. */
  readonly replicas?: ReplicaWish;
}

/** A peer with its curves: seconds and bytes a layer, for a micro-batch of so many samples. */
export type PlannedPeer = ReturnType<typeof plannedPeer>;

/** What a peer's line gives to a link: what goes to another one behind the same router does not go over it. */
export const uploadTo = ({ upload, line }: PlannedPeer, { line: other }: PlannedPeer): number =>
  line !== null && line.name === other?.name ? (line.upload ?? Infinity) : upload;
export const downloadFrom = ({ download, line }: PlannedPeer, { line: other }: PlannedPeer): number =>
  line !== null && line.name === other?.name ? (line.download ?? Infinity) : download;

export interface StageShape {
  readonly first: boolean;
  readonly last: boolean;
  readonly layers: number;
}

export type ClusterCosts = ReturnType<typeof clusterCosts>;

/** What was worked out for a cluster already, by a number or a list that stands for all that it depends on beside. */
export function memo<T, Key = number>() {
  const known = new WeakMap<ClusterCosts, Map<Key, T>>();
  return (costs: ClusterCosts, key: Key, make: () => T): T => {
    const own = known.get(costs) ?? new Map<Key, T>();
    known.set(costs, own);
    const found = own.get(key);
    if (found !== undefined) return found;
    const made = make();
    own.set(key, made);
    return made;
  };
}

/** How many rows a row sees on average: half of the sequence, or fewer where a window ends. */
function seenRows(sequence: number, window: number | null): number {
  const most = Math.min(window ?? sequence, sequence);
  return most - (most * (most - 1)) / (2 * sequence);
}

/** Of a linear row without its adapter. */
const ownFlops = ({ inWidth, outWidth }: Extract<Operation, { op: 'linear' }>): number => 2 * inWidth * outWidth;

/** Multiply-adds counted twice, of one row of a micro-batch. */
function rowFlops(operation: Operation, sequence: number): number {
  switch (operation.op) {
    case 'linear':
      return ownFlops(operation) + 2 * lowWidth(operation) * (operation.inWidth + operation.outWidth);
    case 'attention':
      return 4 * seenRows(sequence, operation.window) * operation.heads * operation.headWidth;
    case 'crossEntropy':
      return 5 * operation.vocabulary;
    case 'gated':
      return 5 * operation.innerWidth;
    case 'rotary':
      return 3 * (operation.heads + operation.keyValueHeads) * operation.headWidth;
    case 'embed':
    case 'layerNorm':
    case 'rmsNorm':
    case 'headNorm':
      return 0;
  }
}

const flops = (rows: readonly Operation[], sequence: number): number =>
  totalOf(rows, (row) => rowFlops(row, sequence)) * sequence;

export function clusterCosts(problem: ClusterProblem) {
  const { model, batch, cluster, without, planeBytes = 0 } = problem;
  const { sequence, wire = 'f32' } = batch;
  const buffers = largestBuffers(model, batch, cluster.peers);
  const peers = cluster.peers.map((peer) => plannedPeer(problem, buffers.relevant(peer)));
  const bufferLimits = limitsOf(peers);
  /** Whose state a peer can keep in main memory. */
  const isWhole = batch.islands !== undefined || batch.stateWire !== undefined;
  const isOnGpu = isWhole || planeBytes > 0 || without === 'mainMemory';
  const hostElements = (peer: PlannedPeer): number => (isOnGpu ? 0 : Math.floor(peer.hostBytes / HOST_ELEMENT_BYTES));
  const memory = new StageMemory(model, batch);
  return {
    ...{ model, batch, peers, planeBytes, memory, bufferLimits, hostElements },
    own: ownEndsOf(problem),
    ...workCosts(problem),
    ...linkCosts(cluster, peers),
    /** Does any plan leave some of those out who share a line? With islands others of it may be in another plan. */
    hasLines: batch.islands === undefined && planeBytes === 0 && peers.some(({ line }) => line !== null),
    /** Bytes that the largest buffer of a stage has past what this peer's GPU takes in one, on micro-batches of so many samples. */
    excessBytes(peer: PlannedPeer, shape: StageShape, samples: number): number {
      const found = isLimited(peer) ? excess(buffers.ofStage(shape, samples), peer.buffers) : null;
      return found ? found.bytes - found.limit : 0;
    },
    /** A buffer that this plan has with a peer whose GPU takes none so large; null: none. */
    oversized: (plan: Plan) => oversized(model, batch, plan, bufferLimits),
    /** May stages gather their layers? With islands, and where sums and values go as codes, they are whole. */
    gathers: !isWhole && without !== 'gathering',
    givesMainMemory: peers.some((peer) => hostElements(peer) > 0),
    /** Layers a second there and back, a sample at a time; of each peer by its place. */
    speeds: peers.map((peer) => 1 / Math.max(1e-12, passSeconds(peer, 1))),
    /** Bytes of an activation, or its gradient, of one sample on its way; with `auto` the fewest that the plan may choose. */
    sampleBytes: packedBytes(tightestWire(wire), sequence * model.width),
    /** The same over the links of a plan. */
    sampleBytesIn(plan: Pick<Plan, 'links'>): (from: PeerId, to: PeerId) => number {
      const between = wireBetween(plan, wire);
      const bytes = new Map(WIRE_ENCODINGS.map((each) => [each, packedBytes(each, sequence * model.width)]));
      return (from, to) => got(bytes, between(from, to));
    },
    /** Bytes of an element of a gradient sum, or of a value, on its way. */
    stateElementBytes: packedBytes(batch.stateWire ?? 'f32', INT8_BLOCK) / INT8_BLOCK,
    /** Whether one of them may keep float32 masters beside what it computes with: halves, or what codes add up to. */
    hasMasters: (places: readonly number[]): boolean =>
      batch.stateWire !== undefined ||
      (batch.compute === 'f16' && places.some((place) => peers[place]?.compute !== 'f32')),
    /** Bytes that a peer says its activations take beyond what the stage allocates for them. */
    extraBytes: (
      peer: PlannedPeer,
      layers: number,
      { samples, slots, recomputed }: { readonly samples: number; readonly slots: number; readonly recomputed: number },
    ): number => {
      if (peer.activation === null) return 0;
      const beyond = Math.max(0, time(peer.activation, samples) - memory.layerSlotBytes(samples, peer.compute));
      // Of the layers that are computed again one has activations at a time.
      return beyond * ((layers - recomputed) * slots + Math.min(recomputed, 1));
    },
  };
}

/** Who alone may have the first and last stage; null: anyone. */
export const ownEndsOf = ({ batch, cluster }: Pick<ClusterProblem, 'batch' | 'cluster'>): OwnEnds =>
  batch.ends === undefined ? null : new Set(cluster.peers.flatMap(({ id, own }) => (own ? peerId(id) : [])));

/** A backward in forwards, with a peak rate alone: of weights that stand no gradient is made. */
function backwardForwards(problem: ClusterProblem): number {
  const { model, batch } = problem;
  if (!model.standing) return BACKWARD_FORWARDS;
  const own = model.layer(0).reduce((sum, row) => (row.op === 'linear' ? sum + ownFlops(row) : sum), 0);
  return BACKWARD_FORWARDS - (own * batch.sequence) / layerFlopsOf(problem);
}

const layerFlopsOf = ({ model, batch: { sequence } }: ClusterProblem): number =>
  Math.max(1, flops(model.layer(0), sequence));

/** A layer there and back. */
const passSeconds = (peer: PlannedPeer, samples: number): number =>
  time(peer.forward, samples) + time(peer.backward, samples);

/** Seconds of work: on micro-batches, and on the state. */
function workCosts(problem: ClusterProblem) {
  const { model, batch } = problem;
  const { sequence } = batch;
  const layerFlops = layerFlopsOf(problem);
  const wholeShare = 1 - flops(endOf(model.layer(0)), sequence) / layerFlops;
  const headLayers = flops(model.head, sequence) / layerFlops;
  const embeddingLayers = (2 * model.width * sequence) / layerFlops;
  const aheadShares: number[] = [];
  return {
    passSeconds,
    /** The head's backward runs with its forward, where the logits still are. */
    forwardSeconds: (peer: PlannedPeer, { first, last, layers }: StageShape, samples: number): number => {
      const forward = time(peer.forward, samples);
      const head = last ? headLayers * (forward + time(peer.backward, samples)) : 0;
      return forward * (layers + (first ? embeddingLayers : 0)) + head;
    },
    backwardSeconds: (peer: PlannedPeer, { first, layers }: StageShape, samples: number): number =>
      time(peer.backward, samples) * (layers + (first ? embeddingLayers : 0)),
    layerSeconds: (peer: PlannedPeer, samples: number): number => time(peer.forward, samples),
    /** Of a layer that is computed again ahead of its backward: what goes by runs of rows is done in that. */
    aheadShare: (samples: number): number => {
      const found = aheadShares[samples] ?? (runRowsOf(model, samples * sequence, batch.compute) > 0 ? wholeShare : 1);
      aheadShares[samples] = found;
      return found;
    },
    /** Forward and backward of a stage take as long as so many layers take there and back. */
    stageLayers: ({ first, last, layers }: StageShape): number =>
      layers + (first ? embeddingLayers : 0) + (last ? headLayers : 0),
    /** As it was measured, over the share of its time that the GPU gives; else by its FLOPs. */
    updateSeconds: ({ mainMemory: { onGpuSeconds }, rest, forward }: PlannedPeer, elements: number): number =>
      onGpuSeconds === undefined
        ? (UPDATE_FLOPS * elements * time(forward, 1)) / layerFlops
        : (onGpuSeconds * elements) / (1 - rest),
    /** What elements in main memory take before the commit, and after it. */
    hostSumSeconds: ({ mainMemory }: PlannedPeer, elements: number): number => mainMemory.sumSeconds * elements,
    hostUpdateSeconds: ({ mainMemory }: PlannedPeer, elements: number): number => mainMemory.updateSeconds * elements,
    /** A sample through a whole layer, there and back. */
    slowness: (peer: PlannedPeer): number => passSeconds(peer, 1),
  };
}

/** Where peers are in the list, and what is between them. */
function linkCosts(cluster: Cluster, peers: readonly PlannedPeer[]) {
  const linkAt = linkTable(cluster);
  const places = new Map(peers.map(({ id }, place) => [id, place]));
  const placeOf = (id: PeerId): number => places.get(id) ?? -1;
  return {
    placeOf,
    /** Between two peers by their places. */
    linkAt,
    link: (a: PeerId, b: PeerId): ClusterLink => linkAt(placeOf(a), placeOf(b)),
  };
}

const isLimited = ({ buffers: { bufferBytes, bindingBytes } }: PlannedPeer): boolean =>
  Math.min(bufferBytes, bindingBytes) < Infinity;
const limitsOf = (peers: readonly PlannedPeer[]): BufferLimits =>
  new Map(peers.filter(isLimited).map(({ id, buffers }) => [id, buffers]));

/** A falling line is no negative time. */
const time = (curve: Curve, samples: number): number => Math.max(0, curveAt(curve, samples));

function plannedPeer(problem: ClusterProblem, peer: ClusterPeer) {
  const { shares, computes, serverSeconds, mainMemory } = problem;
  const { id, measured } = peer;
  const single = measured ? 0 : layerFlopsOf(problem) / (peer.flopsPerSecond ?? 1);
  return {
    id: peerId(id),
    memoryBytes: peer.memoryBytes,
    /** Main memory that it gives beside that: for planes, or for state that is updated there. */
    hostBytes: peer.hostBytes ?? 0,
    /** Of what its GPU takes in one buffer, and binds; Infinity: nothing of this run is larger. */
    buffers: bufferLimitOf(peer),
    region: peer.region ?? '',
    /** How long it stays on average; 0 where nobody knows. */
    sessionSeconds: peer.meanSessionSeconds ?? 0,
    /** Infinity: unlimited. Of a line that it shares, its part. */
    upload: peer.uploadBytesPerSecond ?? Infinity,
    download: peer.downloadBytesPerSecond ?? Infinity,
    line: peer.line ?? null,
    // Past the table by its last slope; one entry scales in proportion.
    forward: extended(measured?.forwardSecondsPerLayer ?? [single], 2),
    backward: extended(measured?.backwardSecondsPerLayer ?? [backwardForwards(problem) * single], 2),
    activation: measured?.memoryBytesPerLayer ? extended(measured.memoryBytesPerLayer, 2) : null,
    /** Null: not known, so that what fits both ways fits. */
    compute: computes?.get(id) ?? null,
    /** One way to the server. */
    serverSeconds: serverSeconds?.get(id) ?? 0,
    mainMemory: mainMemory?.get(id) ?? ASSUMED_SPEED,
    /** Part of each time after which its outcome is there already. */
    rest: 1 - (shares?.get(id) ?? 1),
  };
}

type StageWork = Pick<StageSize, 'samples' | 'slots' | 'keepsMade'> & { readonly recomputed: number };
const PRECISION_FLAG = { either: 0, f32: 4, f16: 8 } as const;
const [KEEPS_FLAG, ALL_FLAGS] = [12, 24];

/** Bytes of a stage: a part that does not depend on the slots, and what each slot takes. */
interface Size {
  readonly fixed: number;
  readonly slot: number;
}

interface Kept {
  readonly compute: Compute | null;
  readonly wires: readonly WireEncoding[];
  readonly keepsMade: boolean;
}

/** `start` and so many times what `b` has more than `a`. */
const line = (start: Size, a: Size, b: Size, times: number): Size => ({
  fixed: start.fixed + times * (b.fixed - a.fixed),
  slot: start.slot + times * (b.slot - a.slot),
});

/**
 * Bytes of a stage on one peer: a fixed part and one a slot. Layers are alike, so both are lines in the number of layers
 * and of those recomputed (from the first one on, which brings the shared place): a few stages say all of them.
 */
class StageMemory {
  readonly #model: Model;
  readonly #batch: ClusterProblem['batch'];
  /** Of a peer of which is not known how it computes. */
  readonly #either: readonly Compute[];
  readonly #sought: readonly WireEncoding[];
  readonly #known = new Map<number, Size>();

  constructor(model: Model, batch: ClusterProblem['batch']) {
    this.#model = model;
    this.#batch = batch;
    this.#either = batch.compute === 'f16' ? COMPUTE_PRECISIONS : ['f32'];
    this.#sought = [tightestWire(batch.wire ?? 'f32')];
  }

  /** `wires`: of the links of its peer; absent: as a plan is sought for. */
  stageBytes(
    shape: StageShape,
    { samples, slots, recomputed, keepsMade = false }: StageWork,
    compute: Compute | null,
    wires = this.#sought,
  ): number {
    const { fixed, slot } = this.#size(shape, samples, recomputed, { compute, wires, keepsMade });
    return fixed + slots * slot;
  }

  /** Of the layer that is computed again ahead of its backward, where others come between. */
  aheadBytes(samples: number, compute: Compute | null): number {
    const size = { layers: [0, 1] as const, samples, sequence: this.#batch.sequence, slots: 0, recompute: [0] };
    const bytes = (own: Compute, recomputesAhead: boolean): number =>
      bytesOf(stageBuffers(this.#model, { ...size, compute: own, recomputesAhead }));
    return Math.max(...(compute ? [compute] : this.#either).map((own) => bytes(own, true) - bytes(own, false)));
  }

  /** Activations of one layer and one micro-batch in flight. */
  layerSlotBytes(samples: number, compute: Compute | null): number {
    const { layers } = this.#model;
    const kept = { compute, wires: this.#sought, keepsMade: true };
    const whole = this.#size({ first: true, last: true, layers }, samples, 0, kept).slot;
    if (layers < 2) return whole;
    return (whole - this.#size({ first: true, last: false, layers: 1 }, samples, 0, kept).slot) / (layers - 1);
  }

  #size(shape: StageShape, samples: number, recomputed: number, kept: Kept): Size {
    const flags =
      (shape.first ? 1 : 0) +
      (shape.last ? 2 : 0) +
      PRECISION_FLAG[kept.compute ?? 'either'] +
      (kept.keepsMade ? KEEPS_FLAG : 0);
    const written = totalOf(kept.wires, (each) => ALL_FLAGS * 2 ** WIRE_ENCODINGS.indexOf(each));
    const most = this.#model.layers + 1;
    const key = ((samples * most + shape.layers) * most + recomputed) * ALL_FLAGS * 2 ** WIRE_ENCODINGS.length;
    const found = this.#known.get(key + written + flags) ?? this.#workOut(shape, samples, recomputed, kept);
    this.#known.set(key + written + flags, found);
    return found;
  }

  #workOut(shape: StageShape, samples: number, recomputed: number, kept: Kept): Size {
    if (recomputed > 2) {
      const one = this.#size(shape, samples, 1, kept);
      return line(one, one, this.#size(shape, samples, 2, kept), recomputed - 1);
    }
    const isWhole = shape.first && shape.last;
    if (isWhole || shape.layers <= 2) return this.#measured(shape, samples, recomputed, kept);
    const two = { ...shape, layers: 2 };
    return line(
      this.#size(two, samples, recomputed, kept),
      this.#size({ ...shape, layers: 1 }, samples, 0, kept),
      this.#size(two, samples, 0, kept),
      shape.layers - 2,
    );
  }

  #measured({ first, last, layers }: StageShape, samples: number, recomputed: number, kept: Kept): Size {
    const { layers: all } = this.#model;
    const { sequence, stateWire } = this.#batch;
    const { wires, keepsMade } = kept;
    // A middle stage of all layers, which is asked for as a measure, has the first one's bytes where there is no other room.
    const from = first ? 0 : last ? all - layers : Math.min(1, all - layers);
    invariant(from + layers <= all, 'a stage has layers of the model');
    const recompute = arrayOf(recomputed, (index) => from + index);
    const size = { layers: [from, from + layers] as const, samples, sequence, recompute, wires, keepsMade, slots: 1 };
    let [most, slot] = [0, 0];
    for (const compute of kept.compute ? [kept.compute] : this.#either) {
      const buffers = stageBuffers(this.#model, { ...size, compute, ...(stateWire && { stateWire }) });
      const own = bytesOf(buffers.filter(({ name }) => name.startsWith(slotName(0))));
      most = Math.max(most, bytesOf(buffers) - own);
      slot = Math.max(slot, own);
    }
    return { fixed: most, slot };
  }
}

const bytesOf = (buffers: ReturnType<typeof stageBuffers>): number => totalOf(buffers, ({ bytes }) => bytes);

/** As a cluster file says it: who does not say what it binds binds whole buffers. */
export const bufferLimitOf = ({
  bufferBytes = Infinity,
  bindingBytes = bufferBytes,
}: Pick<ClusterPeer, 'bufferBytes' | 'bindingBytes'>): BufferLimit => ({ bufferBytes, bindingBytes });

function largestBuffers(model: Model, batch: Batch, peers: readonly ClusterPeer[]) {
  const isLimited = peers.some(({ bufferBytes, bindingBytes }) => (bufferBytes ?? bindingBytes) !== undefined);
  const most = isLimited ? neededOf(largestOfRun(model, batch)) : null;
  const known = new Map<number, Largest>();
  return {
    /** Without limits that nothing in this run is past. */
    relevant(peer: ClusterPeer): ClusterPeer {
      const { bufferBytes: _, bindingBytes: __, ...rest } = peer;
      return most === null || takes(bufferLimitOf(peer), most) ? rest : peer;
    },
    /** Layers are alike: how many a stage has changes none of its sizes. */
    ofStage({ first, last }: { readonly first: boolean; readonly last: boolean }, samples: number): Largest {
      const key = 4 * samples + (first ? 1 : 0) + (last ? 2 : 0);
      const from = first ? 0 : last ? model.layers - 1 : Math.min(1, model.layers - 1);
      const layers = first && last ? ([0, model.layers] as const) : ([from, from + 1] as const);
      const largest = known.get(key) ?? largestOfStage(model, batch, layers, samples);
      known.set(key, largest);
      return largest;
    },
  };
}

/** Bytes from peer to peer. */
export type ByteFlow = ReturnType<typeof flow>;

const NOTHING: ReadonlyMap<number, number> = new Map();

export function flow() {
  const outgoing = new Map<number, Map<number, number>>();
  const incoming = new Map<number, Map<number, number>>();
  const put = (table: Map<number, Map<number, number>>, own: number, other: number, bytes: number): void => {
    let row = table.get(own);
    if (row === undefined) {
      row = new Map();
      table.set(own, row);
    }
    addToKey(row, other, bytes);
  };
  return {
    add(from: number, to: number, bytes: number): void {
      put(outgoing, from, to, bytes);
      put(incoming, to, from, bytes);
    },
    /** By the peer at the other end. */
    from: (place: number) => outgoing.get(place) ?? NOTHING,
    to: (place: number) => incoming.get(place) ?? NOTHING,
    sentBy: (place: number) => total(outgoing.get(place)?.values() ?? []),
    /** How many peers it sends to. */
    partners: (place: number) => outgoing.get(place)?.size ?? 0,
  };
}

/**
 * Until this peer has sent and received what it has to: over one link after the other, as DT-FM has it, so that a slow link
 * costs what it carries although fast ones stand beside it. The two directions are apart. Of its caps one part of `parts`.
 */
export function flowSeconds(costs: ClusterCosts, place: number, sent: ByteFlow, parts = 1): number {
  const own = costs.peers[place];
  const along = (
    bytesOf: ReadonlyMap<number, number>,
    cap: (own: PlannedPeer, other: PlannedPeer) => number,
  ): number => {
    let [latency, seconds] = [0, 0];
    for (const [other, bytes] of bytesOf) {
      const { latencySeconds, bytesPerSecond } = costs.linkAt(place, other);
      const [peer, most] = [costs.peers[other], bytesPerSecond ?? Infinity];
      latency = Math.max(latency, latencySeconds);
      seconds += bytes / Math.min(own && peer ? cap(own, peer) / parts : 0, most);
    }
    return latency + seconds;
  };
  return Math.max(along(sent.from(place), uploadTo), along(sent.to(place), downloadFrom));
}

/** When all that is sent to a peer is there, where each sender begins as its work ends. */
export function arrivedSeconds(
  costs: ClusterCosts,
  place: number,
  sent: ByteFlow,
  begin: ReadonlyMap<number, number>,
): number {
  const own = at(costs.peers, place);
  const parts = [...sent.to(place)].map(([from, bytes]) => ({ bytes, from, begins: begin.get(from) ?? 0 }));
  let [seconds, latency] = [0, 0];
  for (const { bytes, from, begins } of parts.toSorted((one, other) => one.begins - other.begins)) {
    const { latencySeconds, bytesPerSecond } = costs.linkAt(place, from);
    latency = Math.max(latency, latencySeconds);
    seconds =
      Math.max(seconds, begins) +
      bytes / Math.min(downloadFrom(own, at(costs.peers, from)), bytesPerSecond ?? Infinity);
  }
  return seconds + latency;
}

const knownShared = memo<ClusterCosts, string>();

/**
 * Lines that several peers share, as a plan uses them. Each peer's part is of all who could take part; of a plan the parts
 * are of those who are in it, who alone send. What they hand on may take turns (PL63): then a message has all of the line.
 *
 * The costs where these take part, by their places, and of each line nobody else does. With islands others of a line may
 * be in another one: everyone counts.
 */
export function sharedAmong(costs: ClusterCosts, places: Iterable<number>): ClusterCosts {
  if (!costs.hasLines) return costs;
  const counts = new Map<string, number>();
  for (const place of new Set(places)) {
    const line = costs.peers[place]?.line;
    if (line) addToKey(counts, line.name, 1);
  }
  return knownShared(costs, JSON.stringify([...counts].sort()), () => withParts(costs, counts));
}

export const sharedIn = (costs: ClusterCosts, plan: Plan): ClusterCosts =>
  costs.hasLines ? sharedAmong(costs, peers(plan).map(costs.placeOf)) : costs;

function withParts(costs: ClusterCosts, counts: ReadonlyMap<string, number>): ClusterCosts {
  const of = costs.peers.map((peer) => {
    const count = peer.line ? counts.get(peer.line.name) : undefined;
    if (!peer.line || count === undefined || count === peer.line.sharers) return peer;
    const times = peer.line.sharers / count;
    return {
      ...peer,
      ...{ upload: peer.upload * times, download: peer.download * times },
      line: { ...peer.line, sharers: count },
    };
  });
  return { ...costs, peers: of, hasLines: false };
}

export function withoutTurns({ lines, ...plan }: Plan): Plan {
  return plan;
}

/** The plan with those who share a line, of whose stream some leaves it, taking turns. Null: there are none; with islands too, since others of a line may be in another one. */
export function withTurns(costs: ClusterCosts, plan: Plan, pipeline: ByteFlow): Plan | null {
  if (costs.batch.islands !== undefined || !takesTurns(plan.schedule)) return null;
  const groups = new Map<string, PeerId[]>();
  for (const peer of peers(plan)) {
    const place = costs.placeOf(peer);
    const line = costs.peers[place]?.line;
    if (line && outside(costs, place, pipeline).length > 0) pushToKey(groups, line.name, peer);
  }
  const lines = [...groups.values()].filter(({ length }) => length > 1);
  return lines.length === 0 ? null : { ...plan, lines };
}

/** To whom a peer hands something on that is not behind its router. */
function outside({ peers: all }: ClusterCosts, place: number, pipeline: ByteFlow): number[] {
  const own = all[place]?.line?.name;
  return [...pipeline.from(place).keys()].filter((other) => own === undefined || all[other]?.line?.name !== own);
}

/** Where the stream of each peer goes over a line that it shares: the line, and whom it reaches by it. */
interface SharedLines {
  readonly lines: readonly LineCost[];
  readonly lineOf: ReadonlyMap<number, { readonly line: number; readonly mates: ReadonlySet<number> }>;
}

/** At the rate of the whole line, or where nobody knows of one at the best that one of them reaches others with. */
export function turnLines(costs: ClusterCosts, { lines = [], ...plan }: Plan, pipeline: ByteFlow): SharedLines {
  const order = lineTurns({ lines, ...plan });
  const lineOf = new Map<number, { line: number; mates: ReadonlySet<number> }>();
  const found = lines.map((line: PlanLine, index): LineCost => {
    const places = line.map(costs.placeOf).filter((place) => place >= 0);
    const mates = new Set(places);
    for (const place of places) lineOf.set(place, { line: index, mates });
    const rates = places.flatMap((place) => {
      const { upload, line: shared } = at(costs.peers, place);
      const reached = [...pipeline.from(place).keys()].filter((other) => !mates.has(other));
      return reached.map((other) =>
        Math.min(upload * (shared?.sharers ?? 1), costs.linkAt(place, other).bytesPerSecond ?? Infinity),
      );
    });
    const isKnown = places.every((place) => at(costs.peers, place).line !== null);
    const rate = isKnown ? Math.min(...rates) : Math.max(0, ...rates);
    return { sharing: 'turns', bytesPerSecond: rate, order: at(order, index).map(({ from }) => from) };
  });
  return { lines: found, lineOf };
}
