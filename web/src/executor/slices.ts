/**
 * How gradient sums get from the holders to the keepers, the other way round than values (values.ts): which slices of
 * a block a holder sends to whom, and how a keeper adds those of all holders, in the plan's order, whenever they come.
 * Keepers of one shard compare what they added by a digest of it.
 */
import { got, invariant, type PeerId } from '../../../swarm/base.ts';
import { keyText, type TensorKey } from '../../../swarm/messages/frame.ts';
import { slices } from '../../../swarm/model/layout.ts';
import { keepersOf } from '../../../swarm/plan/plan.ts';
import { blockTensor } from '../../../swarm/ways/tensors.ts';
import type { Reading } from './engine.ts';
import type { Role } from './role.ts';
import type { Receive } from './surroundings.ts';

/** By the slice's name: SHA-256 of what this peer sent of its own to the other keepers of a shard that it keeps too. */
export type SentDigests = Map<string, Promise<ArrayBuffer | null>>;

/** Sends beside the step's work; resolves with what `look` makes of the values while they are lent. */
type SendBeside = (
  to: readonly PeerId[],
  key: TensorKey,
  reading: Reading,
  look: (values: Float32Array<ArrayBuffer>) => Promise<ArrayBuffer> | null,
) => Promise<ArrayBuffer | null>;

/** This peer's gradient sums of a stage's blocks, to the keepers elsewhere. */
export async function sendSlices(
  role: Role,
  index: number,
  step: number,
  digests: SentDigests,
  send: SendBeside,
): Promise<void> {
  const { model, epoch, plan, peer, uses, stages } = role;
  const stage = stages.get(index);
  invariant(stage, `this peer has no stage ${index}`);
  for (const use of got(uses, index)) {
    for (const shard of plan.state.find(({ block }) => block === use.block)?.shards ?? []) {
      const keepers = keepersOf(shard);
      const others = keepers.filter((keeper) => keeper !== peer);
      if (others.length === 0) continue;
      const isCompared = others.length < keepers.length;
      for (const range of slices(use, shard.range)) {
        const key = { ...blockTensor(model, 'slice', index, { block: use.block, range }), epoch, step };
        const reading = await stage.readGradient(use.block, range);
        const digest = send(others, key, reading, (values) => (isCompared ? sha256(values) : null));
        digest.catch(() => undefined); // it ends the step where it was sent
        digests.set(keyText(key), digest);
      }
    }
  }
}

/**
 * Waits for every holder's slices of what this peer keeps, and adds them. Of each shard that others keep too the digest
 * of its slices: SHA-256 over theirs, holder by holder in the order of the sum.
 */
export async function addSlices(
  role: Role,
  step: number,
  sent: SentDigests,
  receive: Receive,
): Promise<(string | null)[]> {
  const { model, epoch, peer, kept, shards, stages, uses } = role;
  const found: Promise<string | null>[] = [];
  for (const { block, range, holders, keepers } of kept) {
    const isCompared = keepers.length > 1;
    const digests: Promise<ArrayBuffer | null>[] = [];
    for (const holder of holders) {
      const use = uses.get(holder.stage)?.find((candidate) => candidate.block === block);
      invariant(use, `stage ${holder.stage} does not use ${block}`);
      const parts = slices(use, range).map((part) => ({
        part,
        key: { ...blockTensor(model, 'slice', holder.stage, { block, range: part }), epoch, step },
      }));
      const own = holder.peer === peer ? stages.get(holder.stage) : undefined;
      if (own) {
        shards.addOwn(block, range, own);
        if (isCompared) digests.push(...parts.map(({ key }) => got(sent, keyText(key))));
        continue;
      }
      const pieces = await Promise.all(
        parts.map(async ({ part, key }) => ({ range: part, values: await receive(key, holder.peer) })),
      );
      if (isCompared) digests.push(...pieces.map(({ values }) => sha256(values)));
      shards.addReceived(block, range, pieces);
    }
    const digest = isCompared ? digestOf(digests) : Promise.resolve(null);
    digest.catch(() => undefined); // awaited below, unless what is received next fails first
    found.push(digest);
  }
  return Promise.all(found);
}

async function digestOf(slices: readonly Promise<ArrayBuffer | null>[]): Promise<string> {
  const parts = (await Promise.all(slices)).flatMap((part) => (part ? [...new Uint8Array(part)] : []));
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', Uint8Array.from(parts)));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** The values are read before it returns. */
const sha256 = (values: Float32Array<ArrayBuffer>): Promise<ArrayBuffer> => crypto.subtle.digest('SHA-256', values);
