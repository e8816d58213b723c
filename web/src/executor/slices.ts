/**
 * How gradient sums get from the holders to the keepers, the other way round than values (values.ts): which slices of
 * a block a holder sends to whom, and how a keeper adds those of all holders, in the plan's order, whenever they come.
 * What keepers of one shard add is compared, slice by slice, by digests of what was sent and received.
 */
import { got, invariant, type PeerId } from '../../../swarm/base.ts';
import { keyText, type TensorKey } from '../../../swarm/messages/frame.ts';
import { slices } from '../../../swarm/model/layout.ts';
import { keepersOf } from '../../../swarm/plan/plan.ts';
import { onlySent } from '../../../swarm/ways/compared.ts';
import { blockTensor } from '../../../swarm/ways/tensors.ts';
import type { Reading } from './engine.ts';
import type { Role } from './role.ts';
import type { Receive } from './surroundings.ts';

/** Nobody finds two slices with the same first 16 bytes of their SHA-256. */
const DIGEST_BYTES = 16;

/** JSON has no number for what is not finite. */
export const said = (sum: number): number | 'NaN' | 'Infinity' =>
  Number.isNaN(sum) ? 'NaN' : Number.isFinite(sum) ? sum : 'Infinity';

/** By the slice's key: the digest of what this peer sent of its own, of shards that have a replica. */
export type SentDigests = Map<string, Promise<string | null>>;

/** Sends beside the step's work; resolves with what `look` makes of the values while they are lent. */
type SendBeside = (
  to: readonly PeerId[],
  key: TensorKey,
  reading: Reading,
  look: (values: Float32Array<ArrayBuffer>) => Promise<string> | null,
) => Promise<string | null>;

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
      const isCompared = keepers.length > 1;
      for (const range of slices(use, shard.range)) {
        const key = { ...blockTensor(model, 'slice', index, { block: use.block, range }), epoch, step };
        const reading = await stage.readGradient(use.block, range);
        const digest = send(others, key, reading, (values) => (isCompared ? digestOf(values) : null));
        digest.catch(() => undefined); // it ends the step where it was sent
        digests.set(keyText(key), digest);
      }
    }
  }
}

/**
 * Waits for every holder's slices of what this peer keeps, and adds them. Of each shard that others keep too the digests
 * of its slices, in the order of the sum, which are made beside what comes next.
 */
export async function addSlices(
  role: Role,
  step: number,
  sent: SentDigests,
  receive: Receive,
): Promise<Promise<string[] | null>[]> {
  const { model, epoch, peer, kept, shards, stages, uses } = role;
  const found: Promise<string[] | null>[] = [];
  for (const { block, range, holders, keepers } of kept) {
    const isCompared = keepers.length > 1;
    const digests: Promise<string | null>[] = [];
    for (const holder of holders) {
      const use = uses.get(holder.stage)?.find((candidate) => candidate.block === block);
      invariant(use, `stage ${holder.stage} does not use ${block}`);
      const parts = slices(use, range).map((part) => ({
        part,
        key: { ...blockTensor(model, 'slice', holder.stage, { block, range: part }), epoch, step },
      }));
      const own = holder.peer === peer ? stages.get(holder.stage) : undefined;
      if (own) {
        await shards.addOwn(block, range, own);
        if (isCompared) digests.push(...parts.map(({ key }) => got(sent, keyText(key))));
        continue;
      }
      const pieces = await Promise.all(
        parts.map(async ({ part, key }) => ({ range: part, values: await receive(key, holder.peer) })),
      );
      if (isCompared) digests.push(...pieces.map(({ values }) => digestOf(values)));
      shards.addReceived(block, range, pieces);
    }
    const all = isCompared ? whole(digests) : Promise.resolve(null);
    all.catch(() => undefined); // awaited with the report, unless what is received next fails first
    found.push(all);
  }
  return found;
}

/** Of what this peer sent of shards that it does not keep. */
export const sentAlone = ({ compared, peer, epoch }: Role, step: number, sent: SentDigests): Promise<string[]> =>
  whole(onlySent(compared, peer).map((tensor) => got(sent, keyText({ ...tensor, epoch, step }))));

async function whole(digests: readonly Promise<string | null>[]): Promise<string[]> {
  return (await Promise.all(digests)).map((digest) => {
    invariant(digest !== null, 'a slice that is compared has a digest');
    return digest;
  });
}

/** As `digest` in fields.ts says. The values are read before it returns. */
export async function digestOf(values: Float32Array<ArrayBuffer>): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', values)).subarray(0, DIGEST_BYTES);
  const base64 = btoa(String.fromCharCode(...hash));
  return base64.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}
