/**
 * What a peer allocates for a plan, buffer by buffer. The stage and the shards create exactly these lists, so the
 * prediction and the allocation are the same numbers. Bytes; N = samples·T rows of the largest micro-batch.
 *
 * What is never there at once shares a place: of all slots the logits, and what layers that are computed again keep inside;
 * the gradients of a layer's activations; what a stage hands on, unless another stage of the same peer takes it or layers are
 * gathered. The sums of a weight gradient's slices lie where the product's input gradient is written next, and take none.
 */
import { countIn, got, overlap, type PeerId, type Range, totalOf } from '../base.ts';
import { packetBytes } from '../islands/packet.ts';
import { type Arena, arena, arenaOfUse, SLICE_ELEMENTS, slices } from '../model/layout.ts';
import { matricesOf, updatedParts } from '../model/matrices.ts';
import {
  type Block,
  type BlockName,
  type BlockUse,
  block,
  blocksOfStage,
  layerBlock,
  type Model,
  type Operation,
  standingBlock,
  standingOfStage,
  type TensorSpec,
} from '../model/model.ts';
import { isAgain, lowWidth, type Program, program, type Step } from '../model/program.ts';
import { codedParts, codesSums, codesValues } from '../plan/codedState.ts';
import {
  type Gathered,
  gatheringHome,
  type Holder,
  holderOfAll,
  holders,
  keepersOf,
  type Plan,
  type Shard,
} from '../plan/plan.ts';
import { wireBetween } from '../plan/planLink.ts';
import { FLOAT_BYTES, STATE_KINDS, stateKinds } from '../plan/stateKinds.ts';
import { type Compute, ELEMENT_BYTES } from '../precision.ts';
import { type Islands, MOST_ISLANDS } from '../run/runFile.ts';
import { stepSchedule } from '../schedule/lower.ts';
import { planSlots } from '../schedule/slots.ts';
import { recomputesAhead } from '../schedule/varuna.ts';
import {
  type CodedState,
  INT8_BLOCK,
  INT8_BLOCK_WORDS,
  packedWords,
  type RunWire,
  WIRE_ENCODINGS,
  type WireEncoding,
} from '../wire.ts';
import { adapterBuffers, pairBuffers, standingBuffers } from './adapterMemory.ts';
import { type BufferSpec, PASSES, readback, storage, storageInParts } from './bufferSpec.ts';

/** What counts the passes of the shards of a peer with one stage: a buffer of four, and a word of each of three readings. */
export const COUNTERS = 7;
/** Mapped buffers per stage for activations and gradients on their way out. */
const READBACKS = 3;

export const WIRE = 'wire';
export const WIRE_RESIDUAL = 'wire.residual';
export const WIRE_KEY = 'wire.key';

/** Elements of activations and weights take half a float each where they are halves. */
type Keep = (name: string, elements: number) => BufferSpec;
const keeping =
  (compute: Compute): Keep =>
  (name, elements) =>
    storage(name, (elements * ELEMENT_BYTES[compute]) / 4);
const keepInParts = (compute: Compute, name: string, elements: number, bound: number): BufferSpec =>
  storageInParts(name, (elements * ELEMENT_BYTES[compute]) / 4, (bound * ELEMENT_BYTES[compute]) / 4);

export interface StageSize {
  readonly layers: Range;
  /** Samples of the largest micro-batch. */
  readonly samples: number;
  readonly sequence: number;
  /** Micro-batches between forward and backward at once. */
  readonly slots: number;
  /** Layers whose activations are computed again in the backward; absent: none. */
  readonly recompute?: readonly number[];
  /** What it makes for other stages lies with each micro-batch until a stage of the same peer takes it; absent: it has one place. */
  readonly keepsMade?: boolean;
  /** Forwards come between a recompute and its backward: what it makes has a place of its own. */
  readonly recomputesAhead?: boolean;
  /** How the stream goes to and comes from other peers, over each link in one of these; absent: f32. */
  readonly wires?: readonly WireEncoding[];
  /** How activations and the weights that are computed with are kept; absent: f32. */
  readonly compute?: Compute;
  /** So many of its blocks are whole at a time; absent: all. */
  readonly gathered?: Gathered;
  /** How its gradient sums and values come and go; absent: as floats. */
  readonly stateWire?: CodedState;
  /** Most bytes of logits at once, in place of LOGITS_BYTES: for tests. */
  readonly logitsBytes?: number;
  /** Most bytes of the widest activation of a run of a layer's end, in place of RUN_BYTES: for tests. */
  readonly runBytes?: number;
}

/** Everything a stage keeps: values, gradients, activations for each slot, scratch, and the way out. */
export function stageBuffers(model: Model, size: StageSize): BufferSpec[] {
  const { layers, samples, sequence, slots, compute = 'f32' } = size;
  const work = program(model, layers, size);
  const keep = keeping(compute);
  const rows = samples * sequence;
  const specs: BufferSpec[] = [];
  let largestSlice = 1;
  const uses = blocksOfStage(model, layers);
  const stands = standingOfStage(model, layers);
  // Of any of the stage's blocks: each may come to a place for what is gathered.
  const bound = Math.max(...[...uses, ...stands].map((use) => boundElements(model, use.block)));
  const push = (name: string, elements: number): void =>
    void specs.push(
      keepInParts(compute, `values/${name}`, elements, bound),
      storageInParts(`gradients/${name}`, elements, bound),
    );
  const { gathered } = size;
  for (const use of gathered ? wholeUses(model, layers) : uses) push(use.block, arenaOfUse(model, use, compute).floats);
  if (gathered) for (const [name, floats] of gatheredPlaces(model, layers, gathered, compute)) push(name, floats);
  specs.push(...standingBuffers(model, layers, bound, compute));
  const largestOf = (use: BlockUse, { elements }: Block): number =>
    slices(use, [0, elements]).reduce((most, [from, to]) => Math.max(most, to - from), 1);
  for (const use of uses) largestSlice = Math.max(largestSlice, largestOf(use, block(model, use.block)));
  const largestPiece = stands.reduce(
    (most, use) => Math.max(most, largestOf(use, standingBlock(model, use.block))),
    largestSlice,
  );
  for (let slot = 0; slot < slots; slot++) specs.push(...slotBuffers(work, slotName(slot), rows, keep));
  specs.push(...sharedBuffers(work, size), ...pairBuffers(model, work, rows));
  specs.push(...wireBuffers(work, { stream: rows * model.width, largestPiece, wires: size.wires, compute }));
  if (size.stateWire)
    specs.push(storage(CODEC_FLOATS, largestSlice), storage(CODEC_CODES, packedWords(size.stateWire, largestSlice)));
  specs.push(storage(PASSES, 1));
  const outgoing = Math.max(streamWords(work, rows * model.width, size.wires), largestSlice);
  for (let i = 0; i < READBACKS; i++) {
    specs.push(readback(`readback/${i}`, outgoing + 1));
    if (work.last) specs.push(readback(`lossReadback/${i}`, rows + 1));
  }
  return specs;
}

/** Of the stream as it goes out, written in any of these. */
function streamWords({ first, last }: Program, stream: number, wires: readonly WireEncoding[] = []): number {
  if (first && last) return 0;
  return wires.length === 0
    ? stream
    : Math.max(...wires.map((wire) => (wire === 'f32' ? stream : packedWords(wire, stream))));
}

/** The windows of a stage's attention, each once: its rows have a table of first keys for each. Positions count from that of none. */
export const firstKeyWindows = ({ body }: Pick<Program, 'body'>): (number | null)[] => [
  ...new Set(
    body.flatMap(({ operation }) => {
      if (operation.op === 'attention') return [operation.window];
      return operation.op === 'rotary' || isPlaced(operation) ? [null] : [];
    }),
  ),
];
/** Are rows of a position table added to what it embeds? */
export const addsPositions = ({ body }: Pick<Program, 'body'>): boolean =>
  body.some(({ operation }) => isPlaced(operation));
const isPlaced = (operation: Operation): boolean => operation.op === 'embed' && operation.position !== null;
/** Names, in a slot, of a micro-batch's rows sorted for the gradients of tables (sortTokens.ts). */
export const BY_TOKEN = { order: 'order', segments: 'segments' } as const;
export const BY_POSITION = { order: 'positions/order', segments: 'positions/segments' } as const;
/** Name, in a slot, of the first key of each row that sees so many rows, or its whole example. */
export const firstKeysName = (window: number | null): string => (window === null ? 'firstKeys' : `firstKeys/${window}`);

/** What the names of a slot's buffers begin with. */
export const slotName = (slot: number): string => `slot${slot}/`;

function slotBuffers(work: Program, slot: string, rows: number, keep: Keep): BufferSpec[] {
  const specs = [...work.kept].map(([name, width]) => keep(`${slot}${name}`, rows * width));
  for (const step of [...work.body, ...work.head]) {
    if (step.y !== null && !isAgain(step.y)) specs.push(...statistics(step, slot, rows));
  }
  for (const window of firstKeyWindows(work)) specs.push(storage(`${slot}${firstKeysName(window)}`, rows));
  if (work.first) {
    const sorted = addsPositions(work) ? [BY_TOKEN, BY_POSITION] : [BY_TOKEN];
    specs.push(storage(`${slot}ids`, rows));
    for (const { order, segments } of sorted)
      specs.push(storage(`${slot}${order}`, rows), storage(`${slot}${segments}`, rows * 3 + 4));
  }
  if (work.last) {
    specs.push(storage(`${slot}targets`, rows), storage(`${slot}loss`, rows));
  }
  return specs;
}

interface WireSize {
  /** Elements of the stream, and of the longest piece of a block that comes at once. */
  readonly stream: number;
  readonly largestPiece: number;
  readonly wires: readonly WireEncoding[] | undefined;
  readonly compute: Compute;
}

/**
 * The stream packed, as it came or is to go: never both at once. And what int8 gradients of this step left over, or by
 * what int4 gradients are drawn. What is kept as halves comes and goes as floats, values too: they pass through the same
 * place.
 */
function wireBuffers({ first, last }: Program, { stream, largestPiece, wires = [], compute }: WireSize) {
  const alone = first && last;
  const specs: BufferSpec[] = [];
  if (compute === 'f16') specs.push(storage(WIRE, Math.max(largestPiece, alone ? 0 : stream)));
  else if (wires.some((wire) => wire !== 'f32') && !alone) {
    const packed = wires.map((wire) => (wire === 'f32' ? 0 : packedWords(wire, stream)));
    specs.push(storage(WIRE, Math.max(...packed)));
  }
  if (wires.includes('int8') && !first) specs.push(storage(WIRE_RESIDUAL, stream));
  if (wires.includes('int4') && !first) specs.push(storage(WIRE_KEY, 1));
  return specs;
}

/** What a row's forward leaves for its backward beside its output. */
function statistics({ operation, y }: Step, prefix: string, rows: number): BufferSpec[] {
  if (operation.op === 'layerNorm') return [storage(`${prefix}${y}.stat`, rows * 2)];
  if (operation.op === 'rmsNorm') return [storage(`${prefix}${y}.stat`, rows)];
  if (operation.op === 'headNorm')
    return [storage(`${prefix}${y}.stat`, rows * (operation.heads + operation.keyValueHeads))];
  if (operation.op === 'attention') return [storage(`${prefix}${y}.lse`, rows * operation.heads)];
  return [];
}

/** Of the layers that are computed again: they have the same names, and one place. */
function againBuffers(work: Program, rows: number, keep: Keep): BufferSpec[] {
  const specs = [...work.again].map(([name, width]) => keep(name, rows * width));
  const [one] = work.backward.filter(({ before }) => before.length > 0);
  return [...specs, ...(one?.before ?? []).flatMap((step) => statistics(step, '', rows))];
}

/** The name of the same that waits for its backward while others are computed. */
export const aheadName = (name: string): string => `ahead/${name}`;

/** What all slots of a stage share: scratch, what is computed again, and the tables of the rotary positions' cosines and sines. */
export function sharedBuffers(
  work: Program,
  { samples, sequence, recomputesAhead, compute = 'f32' }: Omit<StageSize, 'layers' | 'slots'>,
): BufferSpec[] {
  const rows = samples * sequence;
  const keep = keeping(compute);
  const widths = new Map<string, number>();
  for (const [name, width] of work.scratch) {
    const place = work.places.get(name) ?? name;
    widths.set(place, Math.max(widths.get(place) ?? 0, width));
  }
  const specs = [...widths].map(([name, width]) => keep(name, rows * width));
  for (const [name, width] of work.inRuns) specs.push(keep(name, Math.min(rows, work.runRows) * width));
  for (const [name, width] of work.logits) specs.push(keep(name, Math.min(rows, work.lossRows) * width));
  const again = againBuffers(work, rows, keep);
  specs.push(...again);
  if (recomputesAhead) specs.push(...again.map((spec) => ({ ...spec, name: aheadName(spec.name) })));
  specs.push(...adapterBuffers(work, keep));
  const heads = Math.max(0, ...work.body.map(({ operation }) => (operation.op === 'attention' ? operation.heads : 0)));
  if (heads > 0) specs.push(storage('attention.delta', rows * heads));
  for (const { turns, headWidth } of rotaryTables(work)) specs.push(storage(turns.name, sequence * headWidth));
  return specs;
}

/** Whose cosines and sines are in a table of their own, which has the name of the turns. */
export function rotaryTables({ body }: Pick<Program, 'body'>): Extract<Operation, { op: 'rotary' }>[] {
  const found = body.flatMap(({ operation }) => (operation.op === 'rotary' ? [operation] : []));
  return [...new Map(found.map((row) => [row.turns.name, row])).values()];
}

/** The stages this peer has work in, with what each must hold; `inFlight` is known to whoever asks for many peers. */
export function stagesOfPeer(
  plan: Plan,
  peer: PeerId,
  sequence: number,
  wire: RunWire = 'f32',
  compute: Compute = 'f32',
  inFlight = planSlots(plan, stepSchedule(plan)),
): Map<number, StageSize> {
  const wires = wiresOf(plan, peer, wire);
  const sizes = new Map(plan.microBatches.map(({ id, samples }) => [id, countIn(samples)]));
  const found = new Map<number, StageSize>();
  const isIn = ({ members }: Plan['stages'][number]): boolean => members.some((member) => member.peer === peer);
  const hasSeveral = plan.stages.filter(isIn).length > 1;
  plan.stages.forEach(({ layers, members, gathered }, stage) => {
    const member = members.find((candidate) => candidate.peer === peer);
    if (!member) return;
    found.set(stage, {
      layers,
      samples: Math.max(...member.microBatches.map((id) => got(sizes, id))),
      sequence,
      slots: inFlight.get(peer)?.get(stage) ?? member.microBatches.length,
      recompute: member.recompute,
      ...((hasSeveral || gathered) && { keepsMade: true }),
      ...(recomputesAhead(plan, stage, peer) && { recomputesAhead: true }),
      wires,
      compute,
      ...(gathered && { gathered }),
      ...(plan.stateWire && { stateWire: plan.stateWire }),
    });
  });
  return found;
}

/** The encodings of a peer's links, for all of its stages alike: the run's own, and those that the plan names. */
export function wiresOf(plan: Pick<Plan, 'links' | 'stages'>, peer: PeerId, wire: RunWire): WireEncoding[] {
  const between = wireBetween(plan, wire);
  const named = (plan.links ?? []).flatMap(({ from, to, wire: own }) =>
    own !== undefined && (from === peer || to === peer) ? [between(from, to)] : [],
  );
  const isPlain = (other: PeerId): boolean => between(peer, other) === 'f32' || between(other, peer) === 'f32';
  const all = new Set(wire === 'auto' ? named : [wire, ...named]);
  if (wire === 'auto' && all.size > 0 && streamPartners(plan, peer).some(isPlain)) all.add('f32');
  return WIRE_ENCODINGS.filter((encoding) => all.has(encoding));
}

/** To whom a peer hands a stream, or from whom it takes one. */
function streamPartners({ stages }: Pick<Plan, 'stages'>, peer: PeerId): PeerId[] {
  return stages.flatMap(({ members }, stage) => {
    const own = new Set(members.find((member) => member.peer === peer)?.microBatches ?? []);
    const beside = [...(stages[stage - 1]?.members ?? []), ...(stages[stage + 1]?.members ?? [])];
    return beside.flatMap((other) => (other.microBatches.some((id) => own.has(id)) ? [other.peer] : []));
  });
}

/**
 * Bytes that a peer may need for this plan in a run that asks for this precision, whether or not its adapter has
 * halves: with them activations are smaller, and a primary's values are there twice.
 */
export function plannedBytes(
  model: Model,
  plan: Plan,
  peer: PeerId,
  { sequence, wire, compute }: { readonly sequence: number; readonly wire?: RunWire; readonly compute?: Compute },
): number {
  const floats = predictedBytes(model, plan, peer, sequence, wire);
  return compute === 'f16' ? Math.max(floats, predictedBytes(model, plan, peer, sequence, wire, compute)) : floats;
}

/** Of an element of a shard in main memory: its value, both moments, the sum of its gradients. */
export const HOST_FLOATS = STATE_KINDS.length + 1;

/**
 * Bytes of main memory in which a peer keeps shards that lie there, and what a run with islands has beside the state that is
 * updated. Where its group meets others also what comes out of a meeting, until it is over, and the packets that came. What
 * it owns of what islands share, where owners have that, follows from no plan and lies beside.
 */
export function hostBytes(plan: Plan, peer: PeerId, islands: Islands | undefined): number {
  const kept = plan.state.flatMap(({ shards }) => shards.filter((shard) => keepersOf(shard).includes(peer)));
  const elementsOf = (shards: readonly Shard[]): number =>
    shards.reduce((sum, { range: [from, to] }) => sum + to - from, 0);
  const parked = stateKinds(islands, plan.islands, plan.owned).length - STATE_KINDS.length;
  const beside = parked + (islands && plan.islands ? floatsOfMeeting(islands, plan.islands, plan.owned) : 0);
  const inHost = kept.filter((shard) => shard.in === 'host');
  // What the holders have, where a primary sends them codes.
  const held = plan.stateWire ? elementsOf(inHost.filter((shard) => shard.peer === peer)) : 0;
  return Math.ceil(FLOAT_BYTES * (elementsOf(kept) * beside + elementsOf(inHost) * HOST_FLOATS + held));
}

/**
 * For each element: what the islands share anew, what is left over of the group's own, one's value (each one's, where they
 * go on beside the meeting), all that is said. With owners what is published anew, its codes, and what the group's own said.
 */
function floatsOfMeeting(
  { count: known, exchange, publish, overlap }: Islands,
  own: readonly number[],
  owned = false,
): number {
  const all = known === 'auto' ? MOST_ISLANDS : known;
  const count = owned ? own.length : all;
  const shared = owned ? 1 + INT8_BLOCK_WORDS / INT8_BLOCK : publish === 'int8' ? 3 : 2;
  const values = overlap ? own.length : 1;
  if (exchange === 'f32') return shared + values + count;
  const said = packetBytes(exchange, [[0, exchange.chunk]]) / (FLOAT_BYTES * exchange.chunk);
  return shared + own.length + values + count * said;
}

/** Bytes that a peer will allocate on its GPU for this plan. */
export function predictedBytes(
  model: Model,
  plan: Plan,
  peer: PeerId,
  sequence: number,
  wire: RunWire = 'f32',
  compute: Compute = 'f32',
): number {
  const specs = [...stagesOfPeer(plan, peer, sequence, wire, compute).values()].flatMap((size) =>
    stageBuffers(model, size),
  );
  return totalOf([...specs, ...shardBuffers(model, plan, peer, undefined, compute)], ({ bytes }) => bytes);
}

/**
 * What a stage that gathers has whole at a time (ZeRO's third stage), and where it lies: each unit, a layer or what an end of
 * the model computes with, comes into one of the stage's places before it is computed with, and makes way for the next one
 * but one, or with one place for the next.
 *
 * In the order of the forward. A tied table is gathered again for the head; in another stage than the first it is not at
 * home, and kept whole.
 */
export function unitsOf(model: Model, layers: Range, first: boolean): BlockUse[][] {
  const uses = blocksOfStage(model, layers);
  const table = model.blocks.find(({ name }) => name === 'embedding')?.tensors[0];
  return uses
    .filter(({ block: name }) => first || name !== 'embedding')
    .map((use) =>
      use.block === 'head' && first && model.tied && table
        ? [use, { block: 'embedding', ranges: [[table.offset, table.offset + table.elements]] }]
        : [use],
    );
}

/** The other blocks of such a stage: those that are not at home in it. */
export const wholeUses = (model: Model, layers: Range): BlockUse[] =>
  layers[0] === 0 ? [] : blocksOfStage(model, layers).filter(({ block }) => block === 'embedding');

/** Of the n-th unit: what follows `values/` or `gradients/` in the name of its buffer. */
export const placeName = (unit: number, gathered: Gathered): string => `gathered${unit % gathered}`;

/** Where the blocks of a unit lie in its place, one after the other. */
export function unitArenas(model: Model, uses: readonly BlockUse[], compute: Compute): Arena[] {
  let end = 0;
  return uses.map((use) => {
    const { segments, floats } = arenaOfUse(model, use, compute);
    const from = end;
    end += floats;
    return { segments: segments.map((segment) => ({ ...segment, at: segment.at + from })), floats: end };
  });
}

/** Floats (or halves) of each place, by its name: of the largest that comes there. */
function gatheredPlaces(model: Model, layers: Range, gathered: Gathered, compute: Compute): Map<string, number> {
  const places = new Map<string, number>();
  for (const [unit, uses] of unitsOf(model, layers, layers[0] === 0).entries()) {
    const name = placeName(unit, gathered);
    const { floats = 0 } = unitArenas(model, uses, compute).at(-1) ?? {};
    places.set(name, Math.max(places.get(name) ?? 0, floats));
  }
  return places;
}

/** Partial sums of a norm, added up on the CPU in float64. */
export const PARTIALS = 256;
/** Learning rate, clip scale and what else AdamW reads, as floats. */
export const SCALARS = 8;
/** Names of what a matrix is orthogonalised in, one at a time: X and the next X, X·Xᵀ and what X is multiplied by, its norm. */
export const MUON = {
  ...{ x: 'muon/x', next: 'muon/next', square: 'muon/square', polynomial: 'muon/polynomial' },
  partials: 'muon/partials',
} as const;
/** Name of where a gradient of what is gathered comes in, whichever shard it is of. */
export const GATHERED_INCOMING = 'incoming/gathered';
/** Names of where what goes as codes passes: floats, what holders have of them, the codes. */
export const CODEC_FLOATS = 'codec/floats';
export const CODEC_HELD = 'codec/held';
export const CODEC_CODES = 'codec/codes';

/** How a keeper works on a shard of its own: where the values lie, and what it adds up in which order. */
export interface ShardWork {
  readonly block: BlockName;
  readonly range: Range;
  /** The primary, then the replicas: this peer is one of them. */
  readonly keepers: readonly PeerId[];
  readonly isPrimary: boolean;
  /** Where its values, moments and sums are: on the GPU, or in main memory. */
  readonly in: 'gpu' | 'host';
  /** Its gradient comes from each micro-batch apart. */
  readonly isGathered: boolean;
  /** Stage of this peer whose values buffer the update writes; null: it has none that holds this range. */
  readonly valuesStage: number | null;
  /** Where the float32 master is: that buffer, or one of the shard's own. Neither a stage's halves nor what lies beside main memory is a master, nor what holders have of codes. */
  readonly master: 'stage' | 'own';
  /** Its new values go as codes: whoever computes with them has what these add up to. */
  readonly isCoded: boolean;
  /** Gradient sums to add, in order. */
  readonly holders: readonly Holder[];
  /** The first sum is this peer's own and the shard all of it: the others are added onto it where it lies. */
  readonly sumInPlace: boolean;
}

/** Its new values go from here to who computes with them, who waits for them. */
export const isPassedOn = ({ isPrimary, isCoded, valuesStage, holders: all }: ShardWork): boolean =>
  isPrimary && (isCoded || all.length > (valuesStage === null ? 0 : 1));

/**
 * What is in main memory, in the order in which it is updated: what others wait for, then what the next forward computes with,
 * in its order.
 */
export const inUpdateOrder = <Of extends { readonly work: ShardWork }>(shards: readonly Of[]): Of[] =>
  shards
    .filter(({ work }) => work.in === 'host')
    .sort((a, b) => Number(isPassedOn(b.work)) - Number(isPassedOn(a.work)));

const isAll = (range: Range, [only, ...more]: readonly Range[]): boolean =>
  more.length === 0 && only !== undefined && only[0] === range[0] && only[1] === range[1];

export function shardsOf(
  model: Model,
  plan: Plan,
  peer: PeerId,
  known: ReturnType<typeof holders> = holders(model, plan),
  compute: Compute = 'f32',
): ShardWork[] {
  return plan.state.flatMap(({ block: name, shards }) => {
    const kept = shards.filter((shard) => keepersOf(shard).includes(peer));
    const order = kept.length === 0 ? [] : got(known, name);
    return kept.map((shard): ShardWork => {
      const { range } = shard;
      const own = holderOfAll(order, peer, range);
      const isCoded = codesValues(plan, shard, order);
      const isGathered = gatheringHome(plan, name) !== null;
      const concerned = order.filter(({ ranges }) => ranges.some((part) => overlap(part, range)));
      return {
        block: name,
        range,
        keepers: keepersOf(shard),
        isPrimary: shard.peer === peer,
        valuesStage: own?.stage ?? null,
        in: shard.in ?? 'gpu',
        isGathered,
        master: own && compute === 'f32' && shard.in !== 'host' && !isCoded ? 'stage' : 'own',
        isCoded,
        holders: concerned,
        // Gradients of what is gathered come while the stage that has the table whole still adds its own.
        sumInPlace:
          !isGathered &&
          shard.in !== 'host' &&
          own !== undefined &&
          own === concerned[0] &&
          isAll(range, own.ranges) &&
          !codesSums(plan, shard, peer),
      };
    });
  });
}

/** Everything a peer has on its GPU as a keeper of shards: moments, sums of others' slices, its own values where it holds none. */
export function shardBuffers(
  model: Model,
  plan: Plan,
  peer: PeerId,
  known?: ReturnType<typeof holders>,
  compute?: Compute,
): BufferSpec[] {
  const work = shardsOf(model, plan, peer, known, compute).filter((shard) => shard.in === 'gpu');
  if (work.length === 0) return [];
  const specs = work.flatMap((one) => {
    const { block: name, range, master, holders: order, sumInPlace, isGathered } = one;
    const { floats } = arena(block(model, name), [range], compute);
    const key = shardBufferKey(name, range);
    const part = (what: string): BufferSpec => storageInParts(`${what}/${key}`, floats);
    const { m, v } = momentArenas(model, one, compute);
    const own = [storageInParts(`m/${key}`, m.floats), storage(`partials/${key}`, PARTIALS)];
    if (v.floats > 0) own.push(storageInParts(`v/${key}`, v.floats));
    if (master === 'own') own.push(part('values'));
    if (hasHeld(one)) own.push(part('held'));
    if (!sumInPlace) own.push(part('sum'));
    if (order.length > 1 && !isGathered) own.push(part('incoming'));
    return own;
  });
  const largest = Math.max(...work.map(({ range }) => countIn(range)));
  const most = work.reduce(
    (so, { block: name, range, isGathered }) =>
      isGathered ? Math.max(so, arena(block(model, name), [range], compute).floats) : so,
    0,
  );
  const stages = plan.stages.filter(({ members }) => members.some((member) => member.peer === peer)).length;
  return [
    ...specs,
    ...(most > 0 ? [storageInParts(GATHERED_INCOMING, most)] : []),
    ...codecBuffers(work),
    ...muonBuffers(model, work),
    storage('scalars', SCALARS),
    storage(PASSES, 1),
    // Behind the values the counters: of the shards, and of the stages whose gradients the norm is of.
    readback('partialsReadback', PARTIALS * work.length + 1 + stages),
    readback('shardReadback', Math.min(largest, SLICE_ELEMENTS) * STATE_KINDS.length + 1),
  ];
}

/** Where the moments of a shard lie: first those of what is updated element by element, alike, then the one of whole matrices. */
export function momentArenas(
  model: Model,
  { block: name, range }: Pick<ShardWork, 'block' | 'range'>,
  compute?: Compute,
): { readonly m: Arena; readonly v: Arena } {
  const source = block(model, name);
  const elements = updatedParts(source, range, 'elements');
  const v = arena(source, elements, compute);
  return { m: arena(source, [...elements, ...updatedParts(source, range, 'matrices')], compute), v };
}

/** Room for the largest matrix of these shards that is updated whole; none where there is none. */
function muonBuffers(model: Model, work: readonly ShardWork[]): BufferSpec[] {
  const room = muonFloats(
    work.flatMap(({ block: name, range }) =>
      block(model, name).tensors.filter(({ offset, elements }) => overlap(range, [offset, offset + elements])),
    ),
  );
  if (room === null) return [];
  return [
    ...[MUON.x, MUON.next].map((name) => storage(name, room.matrix)),
    ...[MUON.square, MUON.polynomial].map((name) => storage(name, room.square)),
    storage(MUON.partials, PARTIALS),
  ];
}

/** Floats of the largest matrix of these tensors, and of its shorter side squared. */
function muonFloats(tensors: readonly TensorSpec[]): { readonly matrix: number; readonly square: number } | null {
  const all = tensors.flatMap(matricesOf);
  if (all.length === 0) return null;
  return {
    matrix: Math.max(...all.map(({ rows, columns }) => rows * columns)),
    square: Math.max(...all.map(({ rows, columns }) => Math.min(rows, columns) ** 2)),
  };
}

/** Bytes of the room in which a peer with the largest matrices of these blocks updates them. */
export function muonBytes(blocks: readonly Block[]): number {
  const room = muonFloats(blocks.flatMap(({ tensors }) => tensors));
  return room === null ? 0 : FLOAT_BYTES * (2 * room.matrix + 2 * room.square + PARTIALS);
}

/** A primary that does not compute with its values keeps what their holders have beside them. */
export const hasHeld = ({ isPrimary, isCoded, valuesStage }: ShardWork): boolean =>
  isPrimary && isCoded && valuesStage === null;

/** Where a primary's values and what their holders have become codes, a piece at a time. */
function codecBuffers(work: readonly ShardWork[]): BufferSpec[] {
  const parts = work
    .filter(({ isPrimary, isCoded }) => isPrimary && isCoded)
    .flatMap(({ holders: order, range }) => codedParts(order, range));
  const largest = parts.reduce((most, [from, to]) => Math.max(most, to - from), 0);
  if (largest === 0) return [];
  return [
    storage(CODEC_FLOATS, largest),
    storage(CODEC_HELD, largest),
    storage(CODEC_CODES, packedWords('int8', largest)),
  ];
}

/** What ends the name of each of a shard's buffers. A peer's shards of one block have different beginnings. */
export const shardBufferKey = (name: BlockName, range: Range): string => `${name}/${range[0]}`;

/** Pieces of a table begin at multiples of so many rows: where halves may be bound, and where a product's panels begin. */
export const PIECE_ROWS = 128;

type Linear = Extract<Operation, { op: 'linear' }>;

/** May the rows of its weight be bound a piece at a time? */
export const isCutByRows = ({ weightLayout, biases, activation, residual }: Linear): boolean =>
  weightLayout === 'outIn' && biases.length === 0 && activation === 'none' && residual === null;

/**
 * How much of a block's tensors a kernel binds at once. A device binds less than it keeps in one buffer: WebGPU guarantees
 * 128 MiB of 256, and GPT-2's token table has 147. So whoever works on whole arrays does it a part at a time, and so do the
 * kernels of tables: an embedding's rows, and the rows of a linear weight without bias, activation and residual. Of all other
 * tensors a kernel binds the whole.
 *
 * Elements of the largest part of a block's tensors that a kernel of its rows has to bind.
 */
function boundElements(model: Model, name: BlockName): number {
  const known = boundOf.get(model) ?? boundOfBlocks(model);
  boundOf.set(model, known);
  if (name === 'embedding') return known.embedding;
  return name === 'head' ? known.head : known.layer;
}

const boundOf = new WeakMap<Model, ReturnType<typeof boundOfBlocks>>();

function boundOfBlocks(model: Model) {
  // A tied head's table is the embedding's, which is cut in both.
  return {
    embedding: largest(model, model.embedding, 'embedding'),
    layer: model.layers > 0 ? largest(model, model.layer(0), layerBlock(0)) : 0,
    head: largest(model, model.head, 'head'),
  };
}

function largest(model: Model, rows: readonly Operation[], name: BlockName): number {
  const tensors = (model.standing ?? model.blocks).find((block) => block.name === name)?.tensors ?? [];
  const elements = new Map(tensors.map((tensor) => [tensor.name, tensor.elements]));
  return Math.max(0, ...rows.map((row) => boundOfRow(row, (tensor) => elements.get(tensor) ?? 0)));
}

function boundOfRow(row: Operation, elementsOf: (tensor: string) => number): number {
  switch (row.op) {
    case 'embed':
      return row.position === null ? 0 : elementsOf(row.position);
    case 'linear':
      return Math.max(
        isCutByRows(row) ? PIECE_ROWS * row.inWidth : row.inWidth * row.outWidth,
        lowWidth(row) * Math.max(row.inWidth, row.outWidth),
      );
    default:
      return 0;
  }
}
