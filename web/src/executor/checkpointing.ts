/**
 * This peer's part of a checkpoint: each shard that it keeps is copied aside while nothing is computed. While training goes
 * on, what it is to upload is uploaded, one after the other, and all else summed up first.
 */
import type { Range } from '../../../swarm/base.ts';
import type { CopyWord } from '../../../swarm/messages/checkpointWords.ts';
import type { PeerMessage, ServerMessage } from '../../../swarm/messages/messages.ts';
import type { BlockName } from '../../../swarm/model/model.ts';
import { uploadsOf } from '../../../swarm/plan/uploader.ts';
import { Sketching } from '../../../swarm/run/stateSketch.ts';
import { abortable } from './inbox.ts';
import { LongWork } from './longWork.ts';
import type { Role } from './role.ts';
import type { RunFiles } from './runFiles.ts';

/** The state after `step` steps. */
type Asked = Omit<Extract<ServerMessage, { type: 'save' }>, 'type'>;

export class Checkpointing {
  #upload: Promise<void> = Promise.resolve();
  #abort = new AbortController();

  /** Resolves when the state after `step` steps stands aside. `uploaded` is told to the server when all of it is there. */
  async save(
    { kept, shards, saved, late, plan, peer }: Role,
    { epoch, step, excused }: Asked,
    files: Pick<RunFiles, 'upload'>,
    tell: (message: PeerMessage) => void,
  ): Promise<void> {
    // The server asks for another one when this is stored or given up: one that is still tried must not hold training up.
    this.#abort.abort(new Error('another checkpoint was asked for'));
    await this.#upload;
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    const stored: { block: BlockName; range: Range; hash: string }[] = [];
    const copies: CopyWord[] = [];
    const own = new Set(uploadsOf(plan, peer, excused).map(({ block, range }) => `${block} ${range}`));
    const parts = kept.map(({ block, range }) => ({ block, range, isUploaded: own.has(`${block} ${range}`) }));
    // What is summed up goes first: it is quick, and then nothing of it lies here any more.
    for (const { block, range, isUploaded } of parts.toSorted((a, b) => Number(a.isUploaded) - Number(b.isUploaded))) {
      if (late?.lacks(block, range)) continue;
      const state = await shards.readState(block, range, saved);
      if (!isUploaded) {
        this.#upload = this.#upload.then(async () => void copies.push(await wordOf(block, range, state, saved.length)));
        continue;
      }
      const shard = { block, range, hash: '' };
      stored.push(shard);
      this.#upload = this.#upload.then(async () => {
        shard.hash = await abortable(signal, (resolve, reject) => {
          files.upload(state, { epoch, step, block, range }, signal).then(resolve, reject);
        });
      });
    }
    this.#upload = this.#upload
      .then(() => {
        const said = copies.length > 0 ? { copies } : {};
        if (kept.length > 0) tell({ type: 'uploaded', epoch, step, shards: stored, ...said });
      })
      .catch(() => undefined); // the server misses the upload at its deadline, or has another checkpoint by then
  }
}

/** Elements. */
const SKETCHED_AT_ONCE = 250_000;

/** Nine digits are far below what is tolerated, and keep a message of many shards short. */
const told = (sum: number): number => Number(sum.toPrecision(9));

async function wordOf(
  block: BlockName,
  range: Range,
  state: Float32Array<ArrayBuffer>,
  kinds: number,
): Promise<CopyWord> {
  // Nobody knows it before the sums are told.
  const [seed = 0] = crypto.getRandomValues(new Uint32Array(1));
  const sketching = new Sketching(seed, kinds);
  const work = new LongWork();
  for (const added of sketching.addAll(range[0], state, SKETCHED_AT_ONCE)) await work.did(added);
  const { sums } = sketching.result();
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', state));
  const text = Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return { block, range, hash: text, seed, sums: sums.map((one) => one.map(told)) };
}
