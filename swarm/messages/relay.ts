/**
 * Tensor frames that go through the server, where two donors have no direct way to each other: binary messages of the
 * donors' socket. An envelope names the other donor (on the way to the server the receiver, from it the sender) and the
 * server changes nothing but that name. A frame stands in the sender's window until the server has handed it to the
 * receiver's socket and says so by a credit; so nothing queues without bound. Rules WP in SPEC.md.
 *
 * Envelope: version u8 · kind u8 · length of the name u8 · the name · what it carries: a frame; a credit's bytes u32; a
 * ping's time f64, which the pong repeats. Little-endian.
 */
import { type PeerId, peerId, type Result, refusal, success } from '../base.ts';
import { FRAME_BYTES } from './frame.ts';

const ENVELOPE_VERSION = 1;
const FIXED_BYTES = 3;
const NAME_BYTES_LIMIT = 64;
export const ENVELOPE_BYTES_LIMIT = FIXED_BYTES + NAME_BYTES_LIMIT + FRAME_BYTES;
/** Bytes of frames that one donor may have on the way to another, not yet credited. */
export const RELAY_WINDOW_BYTES = 4 * FRAME_BYTES;

export const ENVELOPE_KINDS = ['frame', 'credit', 'ping', 'pong'] as const;
type EnvelopeKind = (typeof ENVELOPE_KINDS)[number];

export interface Envelope {
  readonly kind: EnvelopeKind;
  readonly peer: PeerId;
  /** Lies in the message that was decoded. */
  readonly content: Uint8Array<ArrayBuffer>;
}

const fits: Readonly<Record<EnvelopeKind, (bytes: number) => boolean>> = {
  frame: (bytes) => bytes > 0 && bytes <= FRAME_BYTES,
  credit: (bytes) => bytes === 4,
  ping: (bytes) => bytes === 8,
  pong: (bytes) => bytes === 8,
};

export function encodeEnvelope(kind: EnvelopeKind, peer: PeerId, content: Uint8Array): Uint8Array<ArrayBuffer> {
  const name = new TextEncoder().encode(peer);
  const message = new Uint8Array(FIXED_BYTES + name.length + content.length);
  message.set([ENVELOPE_VERSION, ENVELOPE_KINDS.indexOf(kind), name.length]);
  message.set(name, FIXED_BYTES);
  message.set(content, FIXED_BYTES + name.length);
  return message;
}

export function decodeEnvelope(message: Uint8Array<ArrayBuffer>): Result<Envelope> {
  if (message.length > ENVELOPE_BYTES_LIMIT) return refusal(`an envelope of ${message.length} bytes is too long`);
  const [version, kindNumber = 0, nameBytes = 0] = message;
  if (version !== ENVELOPE_VERSION) return refusal(`envelope version ${version}, expected ${ENVELOPE_VERSION}`);
  const kind = ENVELOPE_KINDS[kindNumber];
  if (kind === undefined) return refusal(`unknown envelope kind ${kindNumber}`);
  const start = FIXED_BYTES + nameBytes;
  if (nameBytes === 0 || nameBytes > NAME_BYTES_LIMIT || message.length < start) {
    return refusal('the envelope names nobody');
  }
  const content = message.subarray(start);
  if (!fits[kind](content.length)) return refusal(`a ${kind} of ${content.length} bytes`);
  return success({ kind, peer: peerId(new TextDecoder().decode(message.subarray(FIXED_BYTES, start))), content });
}

export function creditContent(bytes: number): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(4));
  view.setUint32(0, bytes, true);
  return new Uint8Array(view.buffer);
}

export const creditBytes = ({ content }: Envelope): number =>
  new DataView(content.buffer, content.byteOffset).getUint32(0, true);

export function timeContent(timeMs: number): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, timeMs, true);
  return new Uint8Array(view.buffer);
}

export const timeOf = ({ content }: Envelope): number =>
  new DataView(content.buffer, content.byteOffset).getFloat64(0, true);
