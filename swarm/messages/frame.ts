/**
 * Tensor frames: the binary messages that carry activations, gradients and state from tab to tab. One tensor travels as
 * one or more frames of at most `FRAME_BYTES`; every frame names its tensor whole, so order does not matter, a repeated
 * frame is recognised, and one of another epoch is dropped and counted. Rules WP in SPEC.md.
 *
 * Header, little-endian: version u8 · kind and encoding u8 (low and high half) · stage u16 · epoch u32 · step u32 ·
 * index u32 (micro-batch or block) · from u32 · to u32 (elements) · offset u32 (bytes into the tensor) · payload length u32.
 */
import { type Range, type Result, refusal, success } from '../base.ts';
import { packedBytes, WIRE_ENCODINGS, type WireEncoding } from '../wire.ts';

const FRAME_VERSION = 1;
/** A whole message: 64 KiB is what every browser's data channel carries unasked. */
export const FRAME_BYTES = 65_536;
export const HEADER_BYTES = 32;
export const PAYLOAD_BYTES = FRAME_BYTES - HEADER_BYTES;
/** No tensor of a step is larger; a frame that claims more is refused before anything is allocated. */
const TENSOR_BYTES_LIMIT = 256 * 1024 * 1024;

/** activation: forward into a stage. heldOut: the same in an evaluation. gradient: backward into a stage. slice: a holder's gradient of a block range. values: a primary's new values. state: a range that changes hands between two plans. probe: nothing, as much as tells how fast a link is. packet: what an island says of a range at a meeting. beginning: a word that the stage after this one has begun a micro-batch's backward. want: a word that a block is to be gathered. gathered: values of it. share: a part of its gradient, of one micro-batch. turn: a word that the line which two share is free for a message of the other one. published: what an owner publishes of a range at a meeting, as codes. shared: what it has of it, for who is to have it. answer: forward into a stage that answers. */
export const FRAME_KINDS = [
  'activation',
  'gradient',
  'slice',
  'values',
  'heldOut',
  'state',
  'probe',
  'packet',
  'beginning',
  'want',
  'gathered',
  'share',
  'turn',
  'published',
  'shared',
  'answer',
] as const;
export type FrameKind = (typeof FRAME_KINDS)[number];
/** Which go first where they wait for the same way. */
export const FRAME_PRIORITIES = ['stream', 'sums', 'state', 'probe'] as const;
export type FramePriority = (typeof FRAME_PRIORITIES)[number];
const PRIORITY_OF: Readonly<Record<FrameKind, FramePriority>> = {
  ...{ activation: 'stream', gradient: 'stream', heldOut: 'stream', beginning: 'stream' },
  turn: 'stream',
  ...{ want: 'stream', gathered: 'stream', share: 'sums' },
  ...{ slice: 'sums', values: 'sums', packet: 'state', state: 'state', probe: 'probe' },
  ...{ published: 'state', shared: 'state', answer: 'state' },
};
/** Between the members of a stage that gathers its blocks. */
export const GATHER_KINDS: readonly FrameKind[] = ['want', 'gathered', 'share'];
/** What a training step sends. */
export const STEP_TENSORS = ['activation', 'gradient', 'slice', 'values'] as const;
/** What belongs to the stream, and may be packed in any way. */
const STREAM_KINDS: readonly FrameKind[] = ['activation', 'gradient', 'heldOut'];
/** What may be packed as `precision.state` says; all else is float32 in every run. */
const SUM_KINDS: readonly FrameKind[] = ['slice', 'values'];

/**
 * What a tensor is. `stage`: the receiving stage (activation, gradient, beginning; turn: of the message that it is for), the sending holder's (slice), the receiving
 * holder's (values; the block's home for a replica that computes with none of it); for state the place of its kind among those of the run (`stateKinds`); for a packet its island; for shared the place of its kind among `SHARED_KINDS`.
 */
export interface TensorKey {
  readonly kind: FrameKind;
  /** Of a packet, and of what is published or shared at a meeting: the attempt at it. Groups that meet have epochs of their own. */
  readonly epoch: number;
  /** At a meeting: 0. */
  readonly step: number;
  readonly stage: number;
  /**
   * Micro-batch id (activation, gradient, beginning, turn; answer: the piece; heldOut: round · 65,536 + id) or the block's place in the model table (slice,
   * values, state, packet, published, shared).
   */
  readonly index: number;
  /** Elements of the block; for activations and gradients `[0, elements)`; for a packet, and for what is published, its first element, and as many as it has words; for a turn
   * `[0, 1)` where it is an activation's, `[1, 2)` a gradient's; for an answer `[0, rows · C)`. */
  readonly range: Range;
  /** How the elements are written; absent: f32. */
  readonly encoding?: WireEncoding;
}

export interface Frame extends TensorKey {
  readonly encoding: WireEncoding;
  /** Bytes into the tensor. */
  readonly offset: number;
  readonly payload: Uint8Array<ArrayBuffer>;
}

export const keyText = ({ kind, epoch, step, stage, index, range, encoding = 'f32' }: TensorKey): string =>
  `${kind}/${epoch}/${step}/${stage}/${index}/${range[0]}-${range[1]}/${encoding}`;

/** Of all its frames' payloads. */
export const tensorBytes = ({ range, encoding = 'f32' }: Pick<TensorKey, 'range' | 'encoding'>): number =>
  packedBytes(encoding, range[1] - range[0]);

/** Of all its frames, their headers too. */
export const framedBytes = (key: Pick<TensorKey, 'range' | 'encoding'>): number => {
  const bytes = tensorBytes(key);
  return bytes + Math.ceil(bytes / PAYLOAD_BYTES) * HEADER_BYTES;
};

/** Cuts a tensor (of an encoding other than f32: its words) into whole messages. They are copied once, into the messages. */
export function encodeTensor(key: TensorKey, values: Float32Array): ArrayBuffer[] {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  const messages: ArrayBuffer[] = [];
  for (let offset = 0; offset < bytes.length; offset += PAYLOAD_BYTES) {
    const payload = bytes.subarray(offset, offset + PAYLOAD_BYTES);
    const message = new ArrayBuffer(HEADER_BYTES + payload.length);
    const view = new DataView(message);
    view.setUint8(0, FRAME_VERSION);
    view.setUint8(1, FRAME_KINDS.indexOf(key.kind) | (WIRE_ENCODINGS.indexOf(key.encoding ?? 'f32') << 4));
    view.setUint16(2, key.stage, true);
    view.setUint32(4, key.epoch, true);
    view.setUint32(8, key.step, true);
    view.setUint32(12, key.index, true);
    view.setUint32(16, key.range[0], true);
    view.setUint32(20, key.range[1], true);
    view.setUint32(24, offset, true);
    view.setUint32(28, payload.length, true);
    new Uint8Array(message, HEADER_BYTES).set(payload);
    messages.push(message);
  }
  return messages;
}

/** Of a meeting between groups: its frames are told of apart from a step's. */
const MEETING_KINDS: readonly (FrameKind | undefined)[] = ['packet', 'published', 'shared'];

/** Whether a frame says that it is of a meeting; nothing else of it is looked at. */
export const isOfMeeting = (message: ArrayBuffer): boolean =>
  message.byteLength >= HEADER_BYTES && MEETING_KINDS.includes(FRAME_KINDS[new DataView(message).getUint8(1) & 15]);

/** Whether a frame says that it is of an answer; nothing else of it is looked at. */
export const isOfAnswer = (message: ArrayBuffer): boolean =>
  message.byteLength >= HEADER_BYTES && FRAME_KINDS[new DataView(message).getUint8(1) & 15] === 'answer';

/** Two whole messages that are of no step: the first one opens the link's windows, the second one is timed. */
const PROBE_RANGE: Range = [0, (2 * PAYLOAD_BYTES) / 4];
/** What a probe sends each way. */
export const PROBE_BYTES = 2 * FRAME_BYTES;

export const probeFrames = (epoch: number): ArrayBuffer[] =>
  encodeTensor(
    { kind: 'probe', epoch, step: 0, stage: 0, index: 0, range: PROBE_RANGE },
    new Float32Array(PROBE_RANGE[1]),
  );

/** Of a message that this end encoded. */
export function priorityOf(message: ArrayBuffer): FramePriority {
  const kind = FRAME_KINDS[(new Uint8Array(message)[1] ?? 0) & 15];
  return kind === undefined ? 'stream' : PRIORITY_OF[kind];
}

export function decodeFrame(message: ArrayBuffer): Result<Frame> {
  if (message.byteLength < HEADER_BYTES)
    return refusal(`a frame of ${message.byteLength} bytes is shorter than its header`);
  if (message.byteLength > FRAME_BYTES)
    return refusal(`a frame of ${message.byteLength} bytes is longer than ${FRAME_BYTES}`);
  const view = new DataView(message);
  const version = view.getUint8(0);
  if (version !== FRAME_VERSION) return refusal(`frame version ${version}, expected ${FRAME_VERSION}`);
  const kind = FRAME_KINDS[view.getUint8(1) & 15];
  if (kind === undefined) return refusal(`unknown frame kind ${view.getUint8(1) & 15}`);
  const encoding = WIRE_ENCODINGS[view.getUint8(1) >> 4];
  if (encoding === undefined) return refusal(`unknown encoding ${view.getUint8(1) >> 4}`);
  if (encoding !== 'f32' && !STREAM_KINDS.includes(kind) && !(encoding === 'int8' && SUM_KINDS.includes(kind)))
    return refusal(`a tensor of kind ${kind} is never ${encoding}`);
  const range: Range = [view.getUint32(16, true), view.getUint32(20, true)];
  const offset = view.getUint32(24, true);
  const length = view.getUint32(28, true);
  const bytes = tensorBytes({ range, encoding });
  if (bytes <= 0 || bytes > TENSOR_BYTES_LIMIT) return refusal(`a tensor of ${bytes} bytes is out of bounds`);
  if (length !== message.byteLength - HEADER_BYTES) return refusal('the payload length differs from the message');
  if (offset % PAYLOAD_BYTES !== 0 || length === 0 || length !== Math.min(PAYLOAD_BYTES, bytes - offset)) {
    return refusal('the payload is no chunk of its tensor');
  }
  return success({
    kind,
    stage: view.getUint16(2, true),
    epoch: view.getUint32(4, true),
    step: view.getUint32(8, true),
    index: view.getUint32(12, true),
    range,
    encoding,
    offset,
    payload: new Uint8Array(message, HEADER_BYTES),
  });
}
