/**
 * This peer's part of a checkpoint: each shard that it is the primary of is copied aside while nothing is computed, then uploaded while training
 * goes on. One upload at a time: the buffer that a shard is read back through is one.
 */
import type { Range } from '../../../swarm/base.ts';
import type { PeerMessage } from '../../../swarm/messages/messages.ts';
import type { BlockName } from '../../../swarm/model/model.ts';
import type { Role } from './role.ts';
import type { RunFiles } from './runFiles.ts';

export class Checkpointing {
  #upload: Promise<void> = Promise.resolve();

  /** Resolves when the state after `step` steps stands aside. `uploaded` is told to the server when all of it is there. */
  async save(
    { kept, shards }: Role,
    { epoch, step }: { readonly epoch: number; readonly step: number },
    files: Pick<RunFiles, 'upload'>,
    tell: (message: PeerMessage) => void,
  ): Promise<void> {
    await this.#upload;
    const stored: { block: BlockName; range: Range; hash: string }[] = [];
    for (const { block, range, isPrimary } of kept) {
      if (!isPrimary) continue;
      const state = await shards.readState(block, range);
      const shard = { block, range, hash: '' };
      stored.push(shard);
      this.#upload = this.#upload.then(async () => {
        shard.hash = await files.upload(state, { epoch, step, block, range });
      });
    }
    this.#upload = this.#upload
      .then(() => {
        if (stored.length > 0) tell({ type: 'uploaded', epoch, step, shards: stored });
      })
      .catch(() => undefined); // the server misses the upload at its deadline, or has another checkpoint by then
  }
}
