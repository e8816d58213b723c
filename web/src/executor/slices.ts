/**
 * How gradient sums get from the holders to the keepers, the other way round than values (values.ts): which slices of
 * a block a holder sends to whom, and how a keeper adds those of all holders, in the plan's order, whenever they come.
 * Of the token table rows may go (swarm/plan/tokenRows.ts), which both ends know from the same tokens.
 * What keepers of one shard add is compared, slice by slice, by digests of what was sent and received. Where slices go as
 * codes (swarm/plan/codedState.ts) the holder adds those too.
 */
import { countIn, got, invariant, type PeerId, type Range, totalOf } from '../../../swarm/base.ts';
import { keyText, type TensorKey } from '../../../swarm/messages/frame.ts';
import type { BlockName } from '../../../swarm/model/model.ts';
import { keepersOf, type Plan } from '../../../swarm/plan/plan.ts';
import { distinctIds, runsOfRows, type SumPart, spreadRows, sumParts } from '../../../swarm/plan/tokenRows.ts';
import { onlySent } from '../../../swarm/ways/compared.ts';
import { blockTensor } from '../../../swarm/ways/tensors.ts';
import { unpackedInt8 } from '../../../swarm/wire.ts';
import type { MicroTokens, Reading, Stage } from './engine.ts';
import { BadTensorError } from './epochs.ts';
import type { Role } from './role.ts';
import type { Receive } from './surroundings.ts';

/** Nobody finds two slices with the same first 16 bytes of their SHA-256. */
const DIGEST_BYTES = 16;

/** JSON has no number for what is not finite. */
export const said = (sum: number): number | 'NaN' | 'Infinity' =>
  Number.isNaN(sum) ? 'NaN' : Number.isFinite(sum) ? sum : 'Infinity';

/** What this peer sent of its own: a digest of it, of shards that have a replica; its codes, where it adds them itself. */
interface SentSlice {
  readonly digest: string | null;
  readonly codes: Float32Array<ArrayBuffer> | null;
}

/** By the slice's key. */
type SentSlices = Map<string, Promise<SentSlice>>;

/** Of one step. */
export interface StepSlices {
  readonly step: number;
  readonly sent: SentSlices;
  readonly rows: StepRows;
}

/** Sends beside the step's work; resolves with what `look` makes of the values while they are lent. */
type SendBeside = (
  to: readonly PeerId[],
  key: TensorKey,
  reading: Reading,
  look: (values: Float32Array<ArrayBuffer>) => Promise<SentSlice>,
) => Promise<SentSlice>;

/** Which rows of the token table a step's members touch: asked for where some of them go as rows. */
export class StepRows {
  readonly #plan: Plan;
  readonly #tokens: (microBatch: number) => Promise<MicroTokens>;
  readonly #known = new Map<PeerId, Promise<number[]>>();

  constructor(plan: Plan, tokens: (microBatch: number) => Promise<MicroTokens>) {
    [this.#plan, this.#tokens] = [plan, tokens];
  }

  /** Which elements of the block a part of this member's sums has, in its order. */
  async runsOf({ range, table }: SumPart, peer: PeerId, width: number): Promise<Range[]> {
    if (!table) return [range];
    const known = this.#known.get(peer) ?? this.#idsOf(peer);
    this.#known.set(peer, known);
    return runsOfRows({ range, table }, width, await known);
  }

  async #idsOf(peer: PeerId): Promise<number[]> {
    const member = this.#plan.stages[0]?.members.find((one) => one.peer === peer);
    const tokens = await Promise.all((member?.microBatches ?? []).map(this.#tokens));
    return distinctIds(tokens.flatMap(({ ids }) => [...ids]));
  }
}

/** A part of a stage's own sums as it travels; behind rows it is 0. */
export async function readSums(
  stage: Stage,
  block: BlockName,
  part: SumPart,
  runs: readonly Range[],
): Promise<Reading> {
  if (!part.table) return stage.readGradient(block, runs);
  const reading = runs.length > 0 ? await stage.readGradient(block, runs) : null;
  const padded = new Float32Array(countIn(part.range));
  return {
    take: async (use) => {
      await reading?.take((values) => padded.set(values));
      return use(padded);
    },
  };
}

/** This peer's gradient sums of a stage's blocks, to the keepers elsewhere. */
export async function sendSlices(
  role: Role,
  index: number,
  { step, sent, rows }: StepSlices,
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
      const { stateWire } = plan;
      const isAdded = stateWire !== undefined && keepers.includes(peer);
      for (const part of sumParts(model, plan, { stage: index, peer }, use, shard.range)) {
        const { range } = part;
        const key = { ...blockTensor(model, 'slice', index, { block: use.block, range }, stateWire), epoch, step };
        const runs = await rows.runsOf(part, peer, model.width);
        const reading = await (stateWire
          ? stage.packGradient(use.block, range)
          : readSums(stage, use.block, part, runs));
        const slice = send(others, key, reading, async (values) => {
          const codes = isAdded ? values.slice() : null;
          return { codes, digest: isCompared ? await digestOf(values) : null };
        });
        slice.catch(() => undefined); // it ends the step where it was sent
        sent.set(keyText(key), slice);
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
  { step, sent, rows }: StepSlices,
  receive: Receive,
): Promise<Promise<string[] | null>[]> {
  const { model, epoch, plan, peer, kept, shards, stages, uses } = role;
  const { stateWire } = plan;
  const found: Promise<string[] | null>[] = [];
  for (const { block, range, holders, keepers } of kept) {
    const isCompared = keepers.length > 1;
    const digests: Promise<string | null>[] = [];
    for (const holder of holders) {
      const use = uses.get(holder.stage)?.find((candidate) => candidate.block === block);
      invariant(use, `stage ${holder.stage} does not use ${block}`);
      const parts = sumParts(model, plan, holder, use, range).map((part) => ({
        part,
        key: { ...blockTensor(model, 'slice', holder.stage, { block, range: part.range }, stateWire), epoch, step },
      }));
      const own = holder.peer === peer ? stages.get(holder.stage) : undefined;
      const ownSlices = own && isCompared ? parts.map(({ key }) => got(sent, keyText(key))) : [];
      digests.push(...ownSlices.map((slice) => slice.then(({ digest }) => digest)));
      if (own && (!stateWire || !isCompared)) {
        await shards.addOwn(block, range, own);
        continue;
      }
      const pieces = await Promise.all(
        parts.map(async ({ part, key }, place) => {
          const words = own ? await codesOf(ownSlices[place]) : await receive(key, holder.peer);
          const values = stateWire ? unpackedInt8(words, countIn(part.range)) : words;
          const runs = await rows.runsOf(part, holder.peer, model.width);
          if (part.table && values.subarray(totalOf(runs, countIn)).some((value) => value !== 0))
            throw new BadTensorError(holder.peer, `${holder.peer} sends more than its rows of ${block}`);
          return { words, runs: spreadRows(runs, values) };
        }),
      );
      if (isCompared && !own) digests.push(...pieces.map(({ words }) => digestOf(words)));
      await shards.addReceived(
        block,
        range,
        pieces.flatMap(({ runs }) => runs),
      );
    }
    const all = isCompared ? whole(digests) : Promise.resolve(null);
    all.catch(() => undefined); // awaited with the report, unless what is received next fails first
    found.push(all);
  }
  return found;
}

/** Of what this peer sent of shards that it does not keep. */
export const sentAlone = ({ compared, peer, epoch }: Role, step: number, sent: SentSlices): Promise<string[]> =>
  whole(onlySent(compared, peer).map(async (tensor) => (await got(sent, keyText({ ...tensor, epoch, step }))).digest));

async function codesOf(slice: Promise<SentSlice> | undefined): Promise<Float32Array<ArrayBuffer>> {
  const codes = (await slice)?.codes;
  invariant(codes, 'what others add as codes is added so here');
  return codes;
}

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
