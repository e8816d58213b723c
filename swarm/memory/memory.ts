/**
 * What a peer allocates for a plan, buffer by buffer. The stage and the shards create exactly these lists, so the
 * prediction and the allocation are the same numbers. Bytes; N = samples·T rows of the largest micro-batch.
 *
 * What is never there at once shares a place: of all slots the logits, and what layers that are computed again keep inside;
 * the gradients of a layer's activations; what a stage hands on, unless another stage of the same peer takes it or layers are
 * gathered. The sums of a weight gradient's slices lie where the product's input gradient is written next, and take none.
 */
import { got, type PeerId, type Range } from '../base.ts';
import { packetBytes } from '../islands/packet.ts';
import { arenaOfUse, slices } from '../model/layout.ts';
import { block, blocksOfStage, type Model, type Operation } from '../model/model.ts';
import { isAgain, type Program, program, type Step } from '../model/program.ts';
import { type Gathered, keepersOf, type Plan, type Shard } from '../plan/plan.ts';
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
import { boundElements } from './boundParts.ts';
import { type BufferSpec, PASSES, readback, storage, storageInParts } from './bufferSpec.ts';
import { gatheredPlaces, wholeUses } from './gatheredUnits.ts';
import { CODEC_CODES, CODEC_FLOATS, shardBuffers } from './shardMemory.ts';

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
  // Of any of the stage's blocks: each may come to a place for what is gathered.
  const bound = Math.max(...uses.map((use) => boundElements(model, use.block)));
  const push = (name: string, elements: number): void =>
    void specs.push(
      keepInParts(compute, `values/${name}`, elements, bound),
      storageInParts(`gradients/${name}`, elements, bound),
    );
  const { gathered } = size;
  for (const use of gathered ? wholeUses(model, layers) : uses) push(use.block, arenaOfUse(model, use, compute).floats);
  if (gathered) for (const [name, floats] of gatheredPlaces(model, layers, gathered, compute)) push(name, floats);
  for (const use of uses) {
    for (const [from, to] of slices(use, [0, block(model, use.block).elements])) {
      largestSlice = Math.max(largestSlice, to - from);
    }
  }
  for (let slot = 0; slot < slots; slot++) specs.push(...slotBuffers(work, `slot${slot}`, rows, keep));
  specs.push(...sharedBuffers(work, size));
  specs.push(...wireBuffers(work, { stream: rows * model.width, largestSlice, wires: size.wires, compute }));
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

function slotBuffers(work: Program, slot: string, rows: number, keep: Keep): BufferSpec[] {
  const specs = [...work.kept].map(([name, width]) => keep(`${slot}/${name}`, rows * width));
  for (const step of [...work.body, ...work.head]) {
    if (step.y !== null && !isAgain(step.y)) specs.push(...statistics(step, `${slot}/`, rows));
  }
  if (work.first) {
    specs.push(storage(`${slot}/ids`, rows), storage(`${slot}/order`, rows), storage(`${slot}/segments`, rows * 3 + 4));
  }
  if (work.last) {
    specs.push(storage(`${slot}/targets`, rows), storage(`${slot}/loss`, rows));
  }
  return specs;
}

interface WireSize {
  /** Elements of the stream, and of the longest piece of a block that travels. */
  readonly stream: number;
  readonly largestSlice: number;
  readonly wires: readonly WireEncoding[] | undefined;
  readonly compute: Compute;
}

/**
 * The stream packed, as it came or is to go: never both at once. And what int8 gradients of this step left over, or by
 * what int4 gradients are drawn. What is kept as halves comes and goes as floats, values too: they pass through the same
 * place.
 */
function wireBuffers({ first, last }: Program, { stream, largestSlice, wires = [], compute }: WireSize) {
  const alone = first && last;
  const specs: BufferSpec[] = [];
  if (compute === 'f16') specs.push(storage(WIRE, Math.max(largestSlice, alone ? 0 : stream)));
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

/** What all slots of a stage share: scratch, what is computed again, and the table of the rotary positions' cosines and sines. */
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
  const heads = Math.max(0, ...work.body.map(({ operation }) => (operation.op === 'attention' ? operation.heads : 0)));
  if (heads > 0) specs.push(storage('attention.delta', rows * heads));
  const rotary = rotaryOf(work);
  if (rotary) specs.push(storage(ROTARY, sequence * rotary.headWidth));
  return specs;
}

/** Name of the table of the rotary positions: one for a stage, since a model's layers turn alike. */
export const ROTARY = 'rotary';
export function rotaryOf({ body }: Program): Extract<Operation, { op: 'rotary' }> | null {
  for (const { operation } of body) if (operation.op === 'rotary') return operation;
  return null;
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
  const sizes = new Map(plan.microBatches.map(({ id, samples }) => [id, samples[1] - samples[0]]));
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
  return [...specs, ...shardBuffers(model, plan, peer, undefined, compute)].reduce((sum, { bytes }) => sum + bytes, 0);
}
