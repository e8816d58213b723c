/**
 * Where tensor frames wait until the executor asks for them. Frames of an older epoch or step are dropped and counted;
 * those of a newer one wait, up to a bound for each sender, so that nobody fills another one's room. A tensor is known
 * by its key and its sender: lanes of a stage send a keeper gradients of the same key, and a frame from the wrong peer,
 * a repeated one or one that fits no tensor changes nothing. Rules WP in SPEC.md.
 */
import { invariant, type PeerId } from '../../../swarm/base.ts';
import {
  decodeFrame,
  type Frame,
  keyText,
  PAYLOAD_BYTES,
  type TensorKey,
  tensorBytes,
} from '../../../swarm/messages/frame.ts';

/** Bytes of one peer's tensors that may wait here. One that sends more than this ahead of its plan is at fault. */
const WAITING_BYTES_LIMIT = 512 * 1024 * 1024;

type DropReason = 'malformed' | 'old' | 'repeated' | 'unasked' | 'tooMuch';

interface Tensor {
  readonly from: PeerId;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly missing: Set<number>;
  readonly epoch: number;
  readonly step: number;
}

type Waiter = (values: Float32Array<ArrayBuffer>) => void;

const tensorKeyText = (key: TensorKey, from: PeerId): string => `${keyText(key)} from ${from}`;

/** A promise that also rejects when the work is aborted, and leaves nothing on the signal when it is done. */
export function abortable<T>(signal: AbortSignal, begin: (resolve: (value: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const stop = () => reject(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    begin((value) => {
      signal.removeEventListener('abort', stop);
      resolve(value);
    });
  });
}

export class Inbox {
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
  readonly #waitingBytes = new Map<PeerId, number>();

  get droppedFrames(): number {
    return Object.values(this.dropped).reduce((sum, count) => sum + count, 0);
  }

  /** From now on only this epoch and step, and later ones, count; waits for older ones stay unanswered (they abort). */
  advance(epoch: number, step: number): void {
    this.#epoch = epoch;
    this.#step = step;
    for (const [key, tensor] of this.#tensors) {
      if (!this.#isOld(tensor)) continue;
      this.#forget(key, tensor);
      this.dropped.unasked++;
    }
    this.#waiters.clear();
    this.#taken.clear();
  }

  accept(from: PeerId, message: ArrayBuffer): void {
    const decoded = decodeFrame(message);
    if (!decoded.ok) {
      this.dropped.malformed++;
      return;
    }
    const frame = decoded.value;
    if (frame.kind === 'probe') return;
    if (this.#isOld(frame)) {
      this.dropped.old++;
      return;
    }
    const key = tensorKeyText(frame, from);
    const tensor = this.#tensors.get(key) ?? this.#begin(key, frame, from);
    if (!tensor) return;
    if (!tensor.missing.delete(frame.offset / PAYLOAD_BYTES)) {
      this.dropped.repeated++;
      return;
    }
    tensor.bytes.set(frame.payload, frame.offset);
    if (tensor.missing.size === 0) this.#deliver(key, tensor);
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

  #begin(key: string, frame: Frame, from: PeerId): Tensor | null {
    const bytes = tensorBytes(frame);
    if (this.#taken.has(key)) {
      this.dropped.repeated++;
      return null;
    }
    const waitingBytes = (this.#waitingBytes.get(from) ?? 0) + bytes;
    if (waitingBytes > WAITING_BYTES_LIMIT) {
      this.dropped.tooMuch++;
      return null;
    }
    const chunks = Math.ceil(bytes / PAYLOAD_BYTES);
    const tensor: Tensor = {
      from,
      bytes: new Uint8Array(bytes),
      missing: new Set(Array.from({ length: chunks }, (_, i) => i)),
      epoch: frame.epoch,
      step: frame.step,
    };
    this.#tensors.set(key, tensor);
    this.#waitingBytes.set(from, waitingBytes);
    return tensor;
  }

  #deliver(key: string, tensor: Tensor): void {
    const waiter = this.#waiters.get(key);
    if (!waiter) return;
    this.#forget(key, tensor);
    this.#waiters.delete(key);
    this.#taken.add(key);
    waiter(new Float32Array(tensor.bytes.buffer));
  }

  #forget(key: string, tensor: Tensor): void {
    this.#tensors.delete(key);
    const left = (this.#waitingBytes.get(tensor.from) ?? 0) - tensor.bytes.length;
    if (left > 0) this.#waitingBytes.set(tensor.from, left);
    else this.#waitingBytes.delete(tensor.from);
  }
}
