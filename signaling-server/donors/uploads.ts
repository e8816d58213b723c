/**
 * What donors upload for checkpoints, until a checkpoint has it. A commit asks each donor for certain shards; of these it
 * may send each a few times and nothing else, and they are looked at on their way to the disk. A blob that no manifest
 * names some requests later, because its donor left or because nobody wanted it, is deleted.
 */
import type { PeerId, Range } from '../../swarm/base.ts';
import { PENDING_CHECKPOINTS } from '../../swarm/coordinator/checkpoint.ts';
import { shardKey } from '../../swarm/coordinator/state.ts';
import { progressOf } from '../../swarm/islands/progress.ts';
import type { PeerMessage, ServerMessage } from '../../swarm/messages/messages.ts';
import type { BlockName } from '../../swarm/model/model.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { FLOAT_BYTES, type StateKind, savedKinds } from '../../swarm/plan/stateKinds.ts';
import { uploadsOf } from '../../swarm/plan/uploader.ts';
import { implausible } from '../../swarm/run/plausibleState.ts';
import type { Train } from '../../swarm/run/runFile.ts';
import type { BlobHash, BlobStore } from '../files/blobs.ts';
import { checkpointWeights, type Manifest, manifestHashes, parseManifest } from '../store/checkpointState.ts';
import { largestGradient } from '../store/checkpoints.ts';
import { sweepBlobs } from '../store/keptBlobs.ts';
import type { Store } from '../store/store.ts';
import { UploadCheck, UploadError } from './uploadCheck.ts';
import type { UploadCame } from './uploadPace.ts';

/** Times that one shard may be sent, whole or not, some of them at once: the network may lose it, or an answer. */
const TIMES = 8;
/** Of these it may be wrong so often: the second time its donor goes. */
const WRONG_LIMIT = 2;

type UploadedMessage = Extract<PeerMessage, { type: 'uploaded' }>;

/** The state after `step` steps, as a commit of that epoch asked for it. */
interface Request {
  readonly epoch: number;
  readonly step: number;
}

/** Uploaders of the plan in whose place the primaries upload. */
type Excused = Pick<Extract<ServerMessage, { type: 'save' }>, 'excused'>;

interface Upload extends Request {
  readonly block: string;
  readonly range: Range;
}

/** A shard on its way. `sizeBytes`: what its call says; null: nothing. */
interface UploadBody {
  readonly sizeBytes: number | null;
  readonly chunks: AsyncIterable<Uint8Array>;
}

/** A shard that one donor was asked for. */
interface Asked {
  readonly block: BlockName;
  readonly range: Range;
  /** One after the other. */
  readonly kinds: readonly StateKind[];
  times: number;
  wrong: number;
  /** The most of it that came at one time. */
  mostBytes: number;
  /** What it uploaded, found right. */
  readonly hashes: Set<BlobHash>;
}

interface UploadsOf {
  readonly store: Store;
  readonly blobs: BlobStore;
  readonly name: string;
  readonly train: Train;
}

/** Before anything of it is read. */
function checkSize(expectedBytes: number, { sizeBytes }: UploadBody): void {
  const expected = `a shard of ${expectedBytes} bytes was asked for`;
  if (sizeBytes === null) throw new UploadError(411, `the upload does not say its length: ${expected}`);
  if (sizeBytes !== expectedBytes) throw new UploadError(400, `the upload has ${sizeBytes} bytes: ${expected}`);
}

/** What ends a body early is the network's or its donor's doing, and nothing that the server could not keep. */
async function* uncut(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch {
    throw new UploadError(400, 'the upload was cut off');
  }
}

const shardBytes = ({ range: [from, to], kinds }: Asked): number => (to - from) * kinds.length * FLOAT_BYTES;

const requestKey = ({ epoch, step }: Request): string => `${epoch} ${step}`;

export class Uploads {
  readonly #of: UploadsOf;
  /** By donor, then by request, the newest last, then by shard. */
  readonly #asked = new Map<PeerId, Map<string, Map<string, Asked>>>();
  /** Of each upload that is in no checkpoint yet, its request. */
  readonly #requests = new Map<BlobHash, string>();
  /** Checkpoints that were asked for, the newest last, as many as may still become whole. */
  #newest: string[] = [];
  /** Those of them that the run went back over. */
  #over: readonly string[] = [];

  constructor(of: UploadsOf) {
    this.#of = of;
  }

  /** A checkpoint is asked of a donor. Resolves when what is over is off the disk. */
  async asked(peer: PeerId, { epoch, step, excused }: Request & Excused): Promise<void> {
    const request: Request = { epoch, step };
    const key = requestKey(request);
    if (this.#newest.at(-1) !== key) this.#newest = [...this.#newest, key].slice(-PENDING_CHECKPOINTS);
    const known = [...(this.#asked.get(peer) ?? [])].filter(([of]) => this.#newest.includes(of) && of !== key);
    this.#asked.set(peer, new Map([...known, [key, this.#shardsOf(peer, epoch, excused)]]));
    const over = [...this.#requests].flatMap(([hash, of]) => (this.#newest.includes(of) ? [] : hash));
    for (const hash of over) this.#requests.delete(hash);
    if (over.length > 0) await sweepBlobs(this.#of.store, this.#of.blobs, over);
  }

  #shardsOf(peer: PeerId, epoch: number, excused: Excused['excused']): Map<string, Asked> {
    const plan = this.#of.store.epoch(this.#of.name, epoch)?.plan;
    const stored = JSON.parse(plan ?? '{"state":[]}') as Pick<Plan, 'state' | 'islands'>; // the store's own words
    const kinds = savedKinds(this.#of.train.islands, stored.islands);
    return new Map(
      uploadsOf(stored, peer, excused).map((shard) => [
        shardKey(shard.block, shard.range),
        { ...shard, kinds, times: 0, wrong: 0, mostBytes: 0, hashes: new Set() },
      ]),
    );
  }

  /** Keeps what comes, where it was asked for and can be true; throws an `UploadError` where it is not kept. */
  async take(peer: PeerId, upload: Upload, body: UploadBody, came: UploadCame): Promise<BlobHash> {
    const asked = this.#asked.get(peer)?.get(requestKey(upload))?.get(shardKey(upload.block, upload.range));
    const { store, blobs, name, train } = this.#of;
    if (this.#over.includes(requestKey(upload))) throw new UploadError(410, 'the run has gone back since');
    if (asked === undefined || asked.times >= TIMES || asked.wrong >= WRONG_LIMIT)
      throw new UploadError(403, 'no such upload was asked for');
    const newest = store.newestCheckpoint(name);
    if (newest === null || newest.committedSteps >= upload.step)
      throw new UploadError(410, 'a newer checkpoint is stored already');
    checkSize(shardBytes(asked), body);
    const base = parseManifest(newest.manifest);
    const letGo = blobs.hold(manifestHashes(base));
    // Now: while it comes the run may go back, and know nothing of these steps any more.
    const gradient = largestGradient(store, name, base, upload.step, train.gradientClipNorm);
    asked.times += 1;
    try {
      const hash = await blobs.putStream(this.#looked(asked, upload, { base, gradient }, body.chunks, came));
      asked.hashes.add(hash);
      this.#requests.set(hash, requestKey(upload));
      return hash;
    } catch (error) {
      if (error instanceof UploadError && error.status === 422) asked.wrong += 1;
      if (!(error instanceof UploadError)) asked.times -= 1; // the disk, say: not the donor's doing
      throw error;
    } finally {
      await letGo();
    }
  }

  /** Whether this donor has sent so much that is wrong that it has to go. */
  isWrongAgain(peer: PeerId, upload: Upload): boolean {
    const asked = this.#asked.get(peer)?.get(requestKey(upload))?.get(shardKey(upload.block, upload.range));
    return (asked?.wrong ?? 0) >= WRONG_LIMIT;
  }

  async *#looked(
    asked: Asked,
    { step }: Request,
    { base, gradient }: { readonly base: Manifest; readonly gradient: number },
    body: AsyncIterable<Uint8Array>,
    came: UploadCame,
  ): AsyncGenerator<Uint8Array> {
    const { block, range, kinds } = asked;
    const { blobs, train } = this.#of;
    const weights = checkpointWeights(blobs, base);
    const check = new UploadCheck(range, kinds, (part) => weights(block, ...part));
    let hereBytes = 0;
    for await (const chunk of check.through(uncut(body))) {
      hereBytes += chunk.length;
      const newBytes = Math.max(0, hereBytes - asked.mostBytes);
      asked.mostBytes += newBytes;
      came(chunk.length, newBytes, hereBytes === shardBytes(asked));
      yield chunk;
    }
    const wrong = implausible(check.sums, progressOf(train, base.step, step), gradient);
    if (wrong !== null) throw new UploadError(422, wrong);
  }

  /** Whether a donor uploaded what it says it did. What was asked of nobody here is left to the decisions. */
  vouchesFor(peer: PeerId, { shards, ...request }: UploadedMessage): boolean {
    const asked = this.#asked.get(peer)?.get(requestKey(request));
    if (asked === undefined) return true;
    return shards.every(({ block, range, hash }) => asked.get(shardKey(block, range))?.hashes.has(hash) === true);
  }

  /** Uploads that a checkpoint may still name. */
  awaited(): ReadonlySet<BlobHash> {
    return new Set(this.#requests.keys());
  }

  gone(peer: PeerId): void {
    this.#asked.delete(peer);
  }

  /** What was asked for before is wanted no more: its steps never happened. */
  rolledBack(): void {
    this.#asked.clear();
    this.#over = this.#newest;
    this.#newest = [];
  }
}
