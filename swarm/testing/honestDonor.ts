/** For tests: what an honest donor answers, a pure function of what it is told and of its plan, the same at every step. */
import { arrayOf, type PeerId, type Range } from '../base.ts';
import { isAudited } from '../coordinator/audits.ts';
import type { CoordinatorConfig, DonorMessage } from '../coordinator/events.ts';
import type { ServerMessage } from '../messages/messages.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import type { BlockName } from '../model/model.ts';
import { keepersOf, type Plan, peers, type Shard } from '../plan/plan.ts';
import { STATE_KINDS } from '../plan/stateKinds.ts';
import { uploaderOf } from '../plan/uploader.ts';
import { SKETCH_SUMS } from '../run/stateSketch.ts';
import { comparedShards, onlySent, sliceName } from '../ways/compared.ts';
import { committedBy, committedPassages } from '../ways/evidence.ts';

/** What a peer has to say under a plan: the same at every step. */
interface Part {
  readonly losses: readonly { microBatch: number; lossSum: number }[];
  /** As primary or replica; the names of its slices where somebody else has it too. */
  readonly shards: readonly {
    block: BlockName;
    range: Range;
    isPrimary: boolean;
    shard: Shard;
    slices: readonly string[] | null;
  }[];
  readonly sent: readonly string[];
  /** Names of what it commits to, under a plan that is audited. */
  readonly committed: readonly string[];
}
type Run = Pick<CoordinatorConfig, 'model'> & Partial<Pick<CoordinatorConfig, 'audit' | 'batch' | 'wire' | 'train'>>;

/** Where the hashes are the same nobody looks at them. */
const NO_SUMS = { seed: 0, sums: STATE_KINDS.map(() => arrayOf(SKETCH_SUMS, () => 0)) };

/** Of what an honest holder sends at a step, whoever receives it. */
export const honestDigest = (step: number, slice: string): string =>
  `${step}_${slice}`.replaceAll('/', '_').padEnd(22, '-').slice(0, 22);

const parts = new WeakMap<Plan, Map<PeerId, Part>>();

function partOf(run: Run, peer: PeerId, plan: Plan): Part {
  const known = parts.get(plan) ?? new Map<PeerId, Part>();
  parts.set(plan, known);
  const members = plan.stages.at(-1)?.members ?? [];
  const compared = comparedShards(acceptedModel(run), plan);
  const slicesOf = (shard: Shard) =>
    compared.find((one) => one.shard === shard)?.slices.map(({ tensor }) => sliceName(tensor)) ?? null;
  const part = known.get(peer) ?? {
    losses: members
      .flatMap((member) => (member.peer === peer ? member.microBatches : []))
      .map((microBatch) => ({ microBatch, lossSum: 20 + microBatch })),
    shards: plan.state.flatMap(({ block, shards }) =>
      shards.flatMap((shard) => {
        const { peer: primary, range } = shard;
        const isKeeper = keepersOf(shard).includes(peer);
        return isKeeper ? { block, range, isPrimary: primary === peer, shard, slices: slicesOf(shard) } : [];
      }),
    ),
    sent: onlySent(compared, peer).map(sliceName),
    committed: committedIn(run, plan, peer),
  };
  known.set(peer, part);
  return part;
}

function committedIn({ model, audit, batch, wire, train }: Run, plan: Plan, peer: PeerId): string[] {
  if (!audit || !batch || !wire || !train || !isAudited({ audit, train }, plan)) return [];
  const all = committedPassages(acceptedModel({ model, batch }), plan, { sequence: batch.sequence, wire });
  return committedBy(all, peer).map(({ tensor }) => `${tensor.kind}${sliceName(tensor)}`);
}

/** What an honest donor says when it is told this, under the plan it was given last; null: nothing. */
export function answer(run: Run, peer: PeerId, plan: Plan, message: ServerMessage): DonorMessage | null {
  const { losses, shards, sent, committed } = partOf(run, peer, plan);
  switch (message.type) {
    case 'prepare':
      // One who only hands over has no part in the new plan.
      return peers(message.plan).includes(peer) ? { type: 'ready', epoch: message.epoch, memoryBytes: 1 } : null;
    case 'warm':
      return { type: 'warmed', number: message.number };
    case 'start': {
      const { epoch, step } = message;
      const reported = shards.map(({ block, range, slices }) => {
        const digests = slices?.map((slice) => honestDigest(step, slice)) ?? null;
        return { block, range, sumSquares: 0.25, digests };
      });
      return {
        type: 'report',
        epoch,
        step,
        losses: [...losses],
        shards: reported,
        ...(sent.length > 0 ? { sent: sent.map((slice) => honestDigest(step, slice)) } : {}),
        ...(committed.length > 0 ? { committed: committed.map((name) => honestDigest(step, name)) } : {}),
        bytesDirect: peers(plan).length > 1 ? 7 : 0,
        bytesRelayed: 0,
        spans: [],
      };
    }
    case 'evaluate':
      return losses.length === 0
        ? null
        : { type: 'evaluated', epoch: message.epoch, step: message.step, losses: [...losses] };
    case 'save':
    case 'committed': {
      const own = shards.filter(({ shard }) => uploaderOf(shard, message.excused) === peer);
      const others = shards.filter((one) => !own.includes(one));
      const isAsked = message.type === 'save' || message.checkpoint;
      if (!isAsked || shards.length === 0) return null;
      const step = message.type === 'save' ? message.step : message.step + 1;
      const hash = step.toString(16).padStart(64, '0');
      return {
        type: 'uploaded',
        epoch: message.epoch,
        step,
        shards: own.map(({ block, range }) => ({ block, range, hash })),
        ...(others.length > 0
          ? { copies: others.map(({ block, range }) => ({ block, range, hash, ...NO_SUMS })) }
          : {}),
      };
    }
    default:
      return null;
  }
}
