/**
 * What donors upload for checkpoints, until a checkpoint has it. Every upload belongs to one of the newest checkpoints that
 * were asked for. So a donor may send what it was asked for and no more; a blob that no manifest names some requests
 * later, because its donor left or because nobody wanted it, is deleted.
 */
import type { PeerId } from '../../swarm/base.ts';
import { PENDING_CHECKPOINTS } from '../../swarm/coordinator/checkpoint.ts';
import type { BlobHash, BlobStore } from '../files/blobs.ts';
import { sweepBlobs } from '../store/keptBlobs.ts';
import type { Store } from '../store/store.ts';

/** Checkpoints that one donor may have on the way, some of them tried again. */
const UPLOADS = 4;

export class Uploads {
  readonly #store: Store;
  readonly #blobs: BlobStore;
  readonly #stateBytes: number;
  /** What each donor may still upload. */
  readonly #bytesLeft = new Map<PeerId, number>();
  /** Of each upload that is in no checkpoint yet, the request that was the newest when it came. */
  readonly #requests = new Map<BlobHash, string>();
  /** Checkpoints that were asked for, the newest last, as many as may still become whole. */
  #newest: string[] = [];

  /** `stateBytes`: of a whole checkpoint. */
  constructor(store: Store, blobs: BlobStore, stateBytes: number) {
    this.#store = store;
    this.#blobs = blobs;
    this.#stateBytes = stateBytes;
  }

  /** A checkpoint is asked of a donor. Resolves when what is over is off the disk. */
  async asked(peer: PeerId, { epoch, step }: { readonly epoch: number; readonly step: number }): Promise<void> {
    this.#bytesLeft.set(peer, UPLOADS * this.#stateBytes);
    const request = `${epoch} ${step}`;
    if (this.#newest.at(-1) === request) return;
    this.#newest = [...this.#newest, request].slice(-PENDING_CHECKPOINTS);
    const over = [...this.#requests].flatMap(([hash, of]) => (this.#newest.includes(of) ? [] : hash));
    for (const hash of over) this.#requests.delete(hash);
    if (over.length > 0) await sweepBlobs(this.#store, this.#blobs, over);
  }

  /** False where a donor was not asked for so much. What was not kept is given back: a negative number. */
  take(peer: PeerId, bytes: number): boolean {
    const left = this.#bytesLeft.get(peer) ?? 0;
    if (left < bytes) return false;
    if (this.#bytesLeft.has(peer)) this.#bytesLeft.set(peer, left - bytes);
    return true;
  }

  /** It is on the disk. */
  kept(hash: BlobHash): void {
    this.#requests.set(hash, this.#newest.at(-1) ?? '');
  }

  gone(peer: PeerId): void {
    this.#bytesLeft.delete(peer);
  }
}
