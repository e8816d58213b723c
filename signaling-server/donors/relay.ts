/**
 * Frames from donor to donor through their sockets. A receiver's socket is handed a little at a time, the
 * rest waits in its queue, and only what its socket has taken is credited to the sender; so the queue of a donor that
 * does not read is never longer than the windows of those who send to it. Rules WP in SPEC.md.
 */
import { createHash, type Hash } from 'node:crypto';
import type { PeerId } from '../../swarm/base.ts';
import type { CoordinatorEvent, Effect, Pair, RelayedSlice } from '../../swarm/coordinator/events.ts';
import { BEHIND_LIMIT } from '../../swarm/coordinator/replicas.ts';
import { decodeFrame, FRAME_BYTES, type Frame, type TensorKey, tensorBytes } from '../../swarm/messages/frame.ts';
import type { RefusalReason } from '../../swarm/messages/refusals.ts';
import { creditContent, decodeEnvelope, encodeEnvelope, RELAY_WINDOW_BYTES } from '../../swarm/messages/relay.ts';
import { sliceName } from '../../swarm/ways/compared.ts';
import { WentBy } from '../../swarm/ways/wentBy.ts';
import { isSound, PackedSquares } from '../../swarm/wire.ts';

/** What a receiver's socket holds of relayed frames at once. */
const HANDED_BYTES = 524_288;
/** Pings and their answers that it holds at once: what is more says nothing of the way's speed. */
const HANDED_PINGS = 64;

/** As a donor's digests. */
const DIGEST_BYTES = 16;
/** A sender is refused that has so much dropped under one plan. */
const DROPPED_BYTES_LIMIT = 67_108_864;

/** A donor's socket, as the relay sees it. */
export interface RelayPort {
  /** `taken` is called when the system has the bytes, or the socket is gone. */
  sendBytes(bytes: Uint8Array, taken?: () => void): void;
}

interface Waiting {
  readonly from: PeerId;
  /** Of the frame alone: what the sender's window counts. */
  readonly frameBytes: number;
  readonly envelope: Uint8Array;
}

interface Receiver {
  readonly port: RelayPort;
  readonly queue: Waiting[];
  handedBytes: number;
  /** That its socket has not taken yet. */
  pings: number;
}

/** Who may have something relayed to whom, and whether so much of it. */
interface RelayPairs {
  isPair(from: PeerId, to: PeerId): boolean;
  /** Counts the bytes where it is true. */
  take(from: PeerId, to: PeerId, bytes: number): boolean;
  /** So much of it went another way. */
  spent?(from: PeerId, to: PeerId, bytes: number): void;
  /** Steps begun since this tensor's own; none: it moves before the first. Null: nobody asked for it, or its step was not begun. */
  stepsSince(from: PeerId, to: PeerId, key: TensorKey): number | 'none' | null;
}

/** What is told of the frames that go by. */
interface Sight {
  readonly unsound: (from: PeerId, to: PeerId) => void;
  /** Of a slice of the newest steps, when all of it went by. */
  readonly slice: (slice: RelayedSlice) => void;
}

interface Watch {
  readonly pairs: readonly Pair[];
  readonly epoch: number;
  readonly sight: Sight;
  /** Directions. */
  readonly told: Set<string>;
  /** By step: those of which not all went by, or all of them. There are no more than the plan has. */
  readonly slices: Map<number, Map<string, PartOfSlice>>;
  readonly wentBy: WentBy;
}

interface PartOfSlice {
  readonly hash: Hash;
  readonly squares: PackedSquares;
  bytes: number;
}

export class Relay {
  /** Since the server began. Dropped: to someone who is gone, or more than the plan has this donor send there. */
  readonly counts = { frames: 0, bytes: 0, droppedFrames: 0 };
  readonly #receivers = new Map<PeerId, Receiver>();
  /** Bytes of a sender that are on their way, by receiver. */
  readonly #onTheWay = new Map<PeerId, Map<PeerId, number>>();
  /** Of each sender, since the plan began. */
  readonly #dropped = new Map<PeerId, number>();
  /** Frames to or from these came by since the plan began. */
  readonly #used = new Set<PeerId>();
  readonly #pairs: RelayPairs;
  readonly #passed: (from: PeerId, to: PeerId) => void;
  #watch: Watch | null = null;

  /** `passed`: told of whatever goes on from one donor to another. */
  constructor(pairs: RelayPairs, passed: (from: PeerId, to: PeerId) => void = () => {}) {
    this.#pairs = pairs;
    this.#passed = passed;
  }

  /** A plan begins: what came for the one before is forgiven. */
  forgive(): void {
    this.#dropped.clear();
    this.#used.clear();
  }

  /** Whether a part of this plan's tensors goes through this donor's socket: nobody sends those again. */
  isUsedBy(peer: PeerId): boolean {
    return this.#used.has(peer);
  }

  /** A part of this plan's tensors goes there past this server. */
  uses(peer: PeerId): void {
    this.#used.add(peer);
  }

  /** Gateways of the site passed on so much of one donor to another. */
  wentBeside(from: PeerId, to: PeerId, frames: number, bytes: number): void {
    this.counts.frames += frames;
    this.counts.bytes += bytes;
    if (frames > 0) this.#used.add(from).add(to);
    this.#pairs.spent?.(from, to, bytes);
  }

  /** What these send each other in this epoch is looked at; only of the first frame that is not sound each direction is told. */
  watch(pairs: readonly Pair[], epoch: number, sight: Sight): void {
    const nothing = { told: new Set<string>(), slices: new Map(), wentBy: new WentBy() };
    this.#watch = pairs.length === 0 ? null : { pairs, epoch, sight, ...nothing };
  }

  /** What went by between those who are watched; full: whose frames wait there, because the receiver takes none. Null: nobody is. */
  get seen() {
    if (this.#watch === null) return null;
    const { pairs, epoch, wentBy } = this.#watch;
    const isFull = ([from, to]: Pair): boolean =>
      (this.#onTheWay.get(from)?.get(to) ?? 0) > RELAY_WINDOW_BYTES - FRAME_BYTES;
    const full = pairs
      .flatMap(([one, other]): Pair[] => [
        [one, other],
        [other, one],
      ])
      .filter(isFull);
    return { epoch, whole: wentBy.whole, full, moved: wentBy.moved };
  }

  /** What the one sends the other is looked at: it has to come here. */
  isWatched(from: PeerId, to: PeerId): boolean {
    return this.#watch?.pairs.some((pair) => pair.includes(from) && pair.includes(to)) ?? false;
  }

  /** False: it is a slice that nobody asked for, or not its next frame. */
  #look(from: PeerId, to: PeerId, content: Uint8Array<ArrayBuffer>): boolean {
    const watch = this.#watch;
    const direction = `${from} ${to}`;
    if (watch === null || !this.isWatched(from, to)) return true;
    const frame = decodeFrame(content.slice().buffer);
    if (!frame.ok || frame.value.epoch !== watch.epoch || frame.value.payload.length % 4 !== 0) return true;
    const { payload, encoding, offset, kind } = frame.value;
    if (kind === 'answer') return true; // of no step
    const age = this.#pairs.stepsSince(from, to, frame.value);
    if (kind === 'slice' && (typeof age !== 'number' || !isNext(watch, from, to, frame.value, age))) return false;
    if (age !== null) watch.wentBy.saw(from, to, frame.value, age === 'none' ? null : age);
    if (watch.told.has(direction)) return true;
    if (isSound(encoding, new Uint32Array(payload.buffer, payload.byteOffset, payload.length / 4), offset / 4))
      return true;
    watch.told.add(direction);
    watch.sight.unsound(from, to);
    return true;
  }

  connected(peer: PeerId, port: RelayPort): void {
    this.#receivers.set(peer, { port, queue: [], handedBytes: 0, pings: 0 });
    this.#onTheWay.set(peer, new Map());
  }

  gone(peer: PeerId): void {
    const receiver = this.#receivers.get(peer);
    this.#receivers.delete(peer);
    this.#onTheWay.delete(peer);
    this.#dropped.delete(peer);
    this.#used.delete(peer);
    for (const { from, frameBytes } of receiver?.queue ?? []) this.#drop(from, peer, frameBytes);
  }

  /** A binary message of a donor; a reason where it breaks a rule. */
  accept(from: PeerId, message: Uint8Array<ArrayBuffer>): RefusalReason | null {
    const decoded = decodeEnvelope(message);
    if (!decoded.ok || decoded.value.kind === 'credit') return 'malformed';
    const { kind, peer: to, content } = decoded.value;
    const receiver = this.#pairs.isPair(from, to) ? this.#receivers.get(to) : undefined;
    if (receiver) this.#passed(from, to);
    if (kind !== 'frame') {
      if (receiver) ping(receiver, encodeEnvelope(kind, from, content));
      return null;
    }
    if (receiver) this.#used.add(from).add(to);
    const onTheWay = this.#onTheWay.get(from);
    const bytes = (onTheWay?.get(to) ?? 0) + content.length;
    if (bytes > RELAY_WINDOW_BYTES) return 'tooManyMessages';
    onTheWay?.set(to, bytes);
    if (!receiver || !this.#pairs.take(from, to, content.length)) return this.#dropNew(from, to, content.length);
    if (!this.#look(from, to, content)) return 'faulty';
    const envelope = encodeEnvelope('frame', from, content);
    receiver.queue.push({ from, frameBytes: content.length, envelope });
    this.#pump(to, receiver);
    return null;
  }

  /** Some are on their way when a plan ends; who goes on sending them is let go. */
  #dropNew(from: PeerId, to: PeerId, bytes: number): RefusalReason | null {
    const dropped = (this.#dropped.get(from) ?? 0) + bytes;
    this.#dropped.set(from, dropped);
    this.#drop(from, to, bytes);
    return dropped > DROPPED_BYTES_LIMIT ? 'tooManyMessages' : null;
  }

  #pump(to: PeerId, receiver: Receiver): void {
    while (receiver.handedBytes < HANDED_BYTES) {
      const next = receiver.queue.shift();
      if (!next) return;
      const { from, frameBytes, envelope } = next;
      receiver.handedBytes += frameBytes;
      this.counts.frames += 1;
      this.counts.bytes += frameBytes;
      receiver.port.sendBytes(envelope, () => {
        receiver.handedBytes -= frameBytes;
        if (this.isWatched(from, to)) this.#watch?.wentBy.took();
        this.#credit(from, to, frameBytes);
        this.#pump(to, receiver);
      });
    }
  }

  #drop(from: PeerId, to: PeerId, bytes: number): void {
    this.counts.droppedFrames += 1;
    this.#credit(from, to, bytes);
  }

  #credit(from: PeerId, to: PeerId, bytes: number): void {
    const onTheWay = this.#onTheWay.get(from);
    if (!onTheWay) return;
    const left = (onTheWay.get(to) ?? 0) - bytes;
    // Forgotten with its last byte: a sender may name anyone it likes.
    if (left > 0) onTheWay.set(to, left);
    else onTheWay.delete(to);
    this.#receivers.get(from)?.port.sendBytes(encodeEnvelope('credit', to, creditContent(bytes)));
  }
}

/** Frames of a slice come in their order, once. A keeper that is further behind has nothing that counts any more. */
function isNext({ slices, sight }: Watch, from: PeerId, to: PeerId, frame: Frame, age: number): boolean {
  const { step, offset, payload, encoding } = frame;
  if (age >= BEHIND_LIMIT) return true;
  for (const known of slices.keys()) if (known <= step + age - BEHIND_LIMIT) slices.delete(known);
  const parts = slices.get(step) ?? new Map<string, PartOfSlice>();
  slices.set(step, parts);
  const slice = sliceName(frame);
  const name = `${from} ${to} ${slice}`;
  const part = parts.get(name) ?? { hash: createHash('sha256'), squares: new PackedSquares(), bytes: 0 };
  parts.set(name, part);
  if (offset !== part.bytes) return false;
  part.bytes += payload.length;
  part.hash.update(payload);
  part.squares.add(encoding, new Float32Array(payload.buffer, payload.byteOffset, payload.length / 4));
  if (part.bytes < tensorBytes(frame)) return true;
  const digest = part.hash.digest().subarray(0, DIGEST_BYTES).toString('base64url');
  const { sum } = part.squares;
  sight.slice({ step, from, to, slice, digest, squares: Number.isFinite(sum) ? sum : null });
  return true;
}

/** Past the frames that wait. */
function ping(receiver: Receiver, envelope: Uint8Array): void {
  if (receiver.pings >= HANDED_PINGS) return;
  receiver.pings += 1;
  receiver.port.sendBytes(envelope, () => {
    receiver.pings -= 1;
  });
}

/** What is seen of an epoch's watched pairs becomes events of its run: some as they go by, all where it is asked. */
export function watchFor(
  loop: { dispatch(event: Extract<CoordinatorEvent, { type: 'unsoundRelayed' | 'sliceRelayed' | 'relaySaw' }>): void },
  relay: Relay,
  effect: Extract<Effect, { type: 'storeEpoch' | 'relayAsked' }>,
): void {
  if (effect.type === 'relayAsked') {
    const { seen } = relay;
    if (seen !== null) loop.dispatch({ type: 'relaySaw', ...seen });
    return;
  }
  const { epoch, relayed } = effect;
  relay.watch(relayed, epoch, {
    unsound: (from, to) => loop.dispatch({ type: 'unsoundRelayed', epoch, from, to }),
    slice: (slice) => loop.dispatch({ type: 'sliceRelayed', epoch, ...slice }),
  });
}
