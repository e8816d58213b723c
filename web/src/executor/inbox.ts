/**
 * Where tensor frames wait until the executor asks for them. What may come is what the plan has others send here, each
 * tensor by its key, its sender and its exact size: nothing else is ever given room. Frames of an older epoch or step are
 * dropped and counted; those of the next step wait. What comes before its `prepare` does is kept as it came, up to what
 * its sender can have to send. Rules WP in SPEC.md.
 */
import { invariant, type PeerId } from '../../../swarm/base.ts';
import {
  decodeFrame,
  type Frame,
  HEADER_BYTES,
  keyText,
  PAYLOAD_BYTES,
  type TensorKey,
  tensorBytes,
} from '../../../swarm/messages/frame.ts';
import type { Incoming } from '../../../swarm/ways/partners.ts';
import { bytesOf, roundOf } from '../../../swarm/ways/tensors.ts';

/** Of one sender, of what comes before its `prepare` does: some seconds of a fast line. */
const EARLY_BYTES_LIMIT = 67_108_864;
/** And so many frames: the smallest ones take more room here than on their way. */
const EARLY_FRAMES_LIMIT = 16_384;
/** What is dropped of one sender in a step, beside twice what it has to send: more is no accident. */
const WASTED_BYTES_LIMIT = 16_777_216;

type DropReason = 'malformed' | 'old' | 'repeated' | 'unasked' | 'tooMuch';

interface Tensor {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly missing: Set<number>;
  readonly epoch: number;
  readonly step: number;
}

/** What an epoch has others send here. */
interface Expected {
  readonly firstStep: number;
  readonly rounds: number;
  /** Of which steps something may come while this one is done. */
  readonly ahead: (step: number) => Pick<readonly number[], 'includes'>;
  /** Names in whatever step and round, with their senders. */
  readonly names: ReadonlySet<string>;
  /** Of these the ones that come in some step, once. */
  readonly late: ReadonlySet<string>;
  /** Of each sender, in a step. */
  readonly bytes: ReadonlyMap<PeerId, number>;
  readonly earlyBytes: ReadonlyMap<PeerId, number>;
}

interface Early {
  readonly epoch: number;
  readonly message: ArrayBuffer;
}

type Waiter = (values: Float32Array<ArrayBuffer>) => void;

const tensorKeyText = (key: TensorKey, from: PeerId): string => `${keyText(key)} from ${from}`;
const nameText = (key: Omit<TensorKey, 'epoch' | 'step'>, from: PeerId): string =>
  tensorKeyText({ ...key, epoch: 0, step: 0, index: roundOf(key).index }, from);

/** A promise that also rejects when the work is aborted, and leaves nothing on the signal when it is done. */
export function abortable<T>(
  signal: AbortSignal,
  begin: (resolve: (value: T) => void, reject: (error: unknown) => void) => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const stop = () => reject(signal.reason);
    const forget = () => signal.removeEventListener('abort', stop);
    signal.addEventListener('abort', stop, { once: true });
    begin(
      (value) => {
        forget();
        resolve(value);
      },
      (error) => {
        forget();
        reject(error);
      },
    );
  });
}

export class Inbox {
  readonly #onFlood: (from: PeerId) => void;
  readonly #tensors = new Map<string, Tensor>();
  readonly #waiters = new Map<string, Waiter>();
  readonly #taken = new Set<string>();
  readonly dropped: Record<DropReason, number> = {
    malformed: 0,
    old: 0,
    repeated: 0,
    unasked: 0,
    tooMuch: 0,
  };
  #epoch = 0;
  #step = 0;
  /** By epoch: the one in progress, and the one that is prepared. */
  readonly #expected = new Map<number, Expected>();
  readonly #early = new Map<PeerId, Early[]>();
  /** Of the plan that this peer gets ready for: what each sender may send before its `prepare` is here. */
  #warmBytes: ReadonlyMap<PeerId, number> = new Map();
  /** Senders whose early frames of an epoch did not all find room. */
  readonly #lostEarly = new Map<PeerId, number>();
  readonly #wastedBytes = new Map<PeerId, number>();

  /** `onFlood`: this peer sends and sends what nobody asked for. */
  constructor(onFlood: (from: PeerId) => void) {
    this.#onFlood = onFlood;
  }

  get droppedFrames(): number {
    return Object.values(this.dropped).reduce((sum, count) => sum + count, 0);
  }

  /** Links of a plan that may come next are open: its hand-over may begin before this peer hears of it. */
  warm(bytes: ReadonlyMap<PeerId, number>): void {
    this.#warmBytes = bytes;
  }

  /** An epoch is prepared that begins with this step. Null, or who sent more of it ahead than could be kept. */
  expect(
    epoch: number,
    firstStep: number,
    coming: Incoming,
    rounds: number,
    ahead: Expected['ahead'] = (step) => [step + 1],
  ): PeerId | null {
    for (const known of this.#expected.keys()) if (known !== this.#epoch) this.#expected.delete(known);
    const { earlyBytes } = coming;
    const bytes = new Map<PeerId, number>();
    const names = new Set<string>();
    for (const passage of [...coming.arrival, ...coming.step, ...coming.late, ...coming.heldOut]) {
      names.add(nameText(passage.tensor, passage.from));
      bytes.set(passage.from, (bytes.get(passage.from) ?? 0) + bytesOf(passage));
    }
    const late = new Set(coming.late.map(({ tensor, from }) => nameText(tensor, from)));
    this.#expected.set(epoch, { firstStep, rounds, ahead, names, late, bytes, earlyBytes });
    this.#warmBytes = new Map();
    this.#wastedBytes.clear();
    const early = [...this.#early];
    this.#early.clear();
    for (const [from, frames] of early) for (const { message } of frames) this.accept(from, message);
    const [lost] = [...this.#lostEarly].flatMap(([from, of]) => (of === epoch ? from : []));
    this.#lostEarly.clear();
    return lost ?? null;
  }

  /** From now on only this epoch and step, and later ones, count; waits for older ones stay unanswered (they abort). */
  advance(epoch: number, step: number): void {
    this.#epoch = epoch;
    this.#step = step;
    for (const known of this.#expected.keys()) if (known < epoch) this.#expected.delete(known);
    for (const [key, tensor] of this.#tensors) {
      if (!this.#isOld(tensor)) continue;
      this.#tensors.delete(key);
      this.dropped.unasked++;
    }
    this.#wastedBytes.clear();
    this.#waiters.clear();
    this.#taken.clear();
  }

  /** No plan has anything sent here any more. */
  clear(): void {
    this.#expected.clear();
    this.#early.clear();
    this.#warmBytes = new Map();
    this.#tensors.clear();
  }

  accept(from: PeerId, message: ArrayBuffer): void {
    const reason = this.#take(from, message);
    if (reason === null) return;
    this.dropped[reason]++;
    this.#waste(from, message);
  }

  /**
   * The tensor of this key from this peer (packed: its words), now or when its last frame is in; rejects when the work is
   * aborted.
   */
  receive(tensorKey: TensorKey, from: PeerId, signal: AbortSignal): Promise<Float32Array<ArrayBuffer>> {
    const key = tensorKeyText(tensorKey, from);
    invariant(!this.#waiters.has(key) && !this.#taken.has(key), `${key} is awaited twice`);
    return abortable(signal, (resolve) => {
      this.#waiters.set(key, resolve);
      const tensor = this.#tensors.get(key);
      if (tensor?.missing.size === 0) this.#deliver(key, tensor);
    });
  }

  #isOld({ epoch, step }: { readonly epoch: number; readonly step: number }): boolean {
    return epoch < this.#epoch || (epoch === this.#epoch && step < this.#step);
  }

  /** Why nothing of it is kept; null: it is what was to come. */
  #take(from: PeerId, message: ArrayBuffer): DropReason | null {
    const decoded = decodeFrame(message);
    if (!decoded.ok) return 'malformed';
    const frame = decoded.value;
    if (frame.kind === 'probe') {
      if (this.#isSender(from)) this.#waste(from, message);
      return null;
    }
    if (this.#isOld(frame)) return 'old';
    const expected = this.#expected.get(frame.epoch);
    if (!expected) return this.#keepEarly(from, message, frame);
    if (!this.#isExpected(expected, frame, from)) return 'unasked';
    const key = tensorKeyText(frame, from);
    const tensor = this.#tensors.get(key) ?? this.#begin(key, frame);
    if (!tensor?.missing.delete(frame.offset / PAYLOAD_BYTES)) return 'repeated';
    tensor.bytes.set(frame.payload, frame.offset);
    if (tensor.missing.size === 0) this.#deliver(key, tensor);
    return null;
  }

  #isSender(from: PeerId): boolean {
    return [...this.#expected.values()].some(({ bytes }) => bytes.has(from));
  }

  /** Nobody is more than a step ahead: a step needs this peer's part of the one before. */
  #isExpected({ names, late, firstStep, rounds, ahead }: Expected, frame: Frame, from: PeerId): boolean {
    const step = frame.epoch === this.#epoch ? this.#step : firstStep;
    if (frame.step !== step && !ahead(step).includes(frame.step)) return false;
    if (frame.kind === 'heldOut' && roundOf(frame).round >= rounds) return false;
    const name = nameText(frame, from);
    if (frame.kind === 'state' && frame.step !== firstStep && !late.has(name)) return false;
    return names.has(name);
  }

  /** The other end has heard of an epoch that this one has not. */
  #keepEarly(from: PeerId, message: ArrayBuffer, { epoch }: Frame): DropReason | null {
    const newest = [...this.#expected.values()].at(-1);
    const expected = Math.max(newest?.earlyBytes.get(from) ?? 0, this.#warmBytes.get(from) ?? 0);
    const limit = Math.min(EARLY_BYTES_LIMIT, expected);
    const early = this.#early.get(from) ?? [];
    const sum = early.reduce((so, one) => so + one.message.byteLength, message.byteLength);
    const bytes = sum - HEADER_BYTES * (early.length + 1);
    if (bytes > limit || early.length >= EARLY_FRAMES_LIMIT) {
      if (limit > 0) this.#lostEarly.set(from, epoch);
      return 'tooMuch';
    }
    early.push({ epoch, message });
    this.#early.set(from, early);
    return null;
  }

  #begin(key: string, frame: Frame): Tensor | null {
    if (this.#taken.has(key)) return null;
    const bytes = tensorBytes(frame);
    const chunks = Math.ceil(bytes / PAYLOAD_BYTES);
    const tensor: Tensor = {
      bytes: new Uint8Array(bytes),
      missing: new Set(Array.from({ length: chunks }, (_, i) => i)),
      epoch: frame.epoch,
      step: frame.step,
    };
    this.#tensors.set(key, tensor);
    return tensor;
  }

  #deliver(key: string, tensor: Tensor): void {
    const waiter = this.#waiters.get(key);
    if (!waiter) return;
    this.#tensors.delete(key);
    this.#waiters.delete(key);
    this.#taken.add(key);
    waiter(new Float32Array(tensor.bytes.buffer));
  }

  #waste(from: PeerId, { byteLength }: ArrayBuffer): void {
    const before = this.#wastedBytes.get(from) ?? 0;
    const asked = [...this.#expected.values()].reduce((most, { bytes }) => Math.max(most, bytes.get(from) ?? 0), 0);
    const limit = WASTED_BYTES_LIMIT + 2 * asked;
    this.#wastedBytes.set(from, before + byteLength);
    if (before <= limit && before + byteLength > limit) this.#onFlood(from);
  }
}
