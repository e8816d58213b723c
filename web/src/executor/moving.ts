/**
 * A change of plan as one peer lives it: what it had is copied aside, its new stages and shards are built, and the copy
 * and the frames of others fill them. The copy outlives the attempt, so a hand-over that fails on the way can begin
 * again with nothing lost (CO23).
 */
import { got, invariant, outside, overlap, type PeerId, type Range } from '../../../swarm/base.ts';
import type { TensorKey } from '../../../swarm/messages/frame.ts';
import { slices } from '../../../swarm/model/layout.ts';
import type { BlockName, Model } from '../../../swarm/model/model.ts';
import { type Transfer, transfers } from '../../../swarm/plan/handover.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import type { StateKind } from '../../../swarm/plan/stateKinds.ts';
import { stateTensor } from '../../../swarm/ways/tensors.ts';
import { sound } from './lateCopies.ts';
import type { Role } from './role.ts';

interface HeldRange {
  readonly block: BlockName;
  readonly kind: StateKind;
  readonly range: Range;
  readonly values: Float32Array;
}

/** What a peer had under a plan after so many steps, in its own memory. */
export interface HeldState {
  readonly epoch: number;
  readonly step: number;
  /** With several groups: the last meeting that is in it. */
  readonly met?: number | undefined;
  readonly ranges: readonly HeldRange[];
}

/** Copies what a role keeps and, where that counts, what it computes with. */
export async function heldState({ epoch, stages, uses, shards, kinds, kept }: Role, step: number, keptOnly: boolean) {
  const ranges: HeldRange[] = [];
  for (const { block, range } of kept) {
    const state = await shards.readState(block, range, kinds);
    const length = range[1] - range[0];
    kinds.forEach((kind, index) => {
      ranges.push({ block, kind, range, values: state.subarray(index * length, (index + 1) * length) });
    });
  }
  for (const [index, stage] of keptOnly ? [] : stages) {
    for (const use of got(uses, index)) {
      await shards.written?.(index, use.block);
      for (const range of slices(use, [0, Number.POSITIVE_INFINITY])) {
        const values = await (await stage.readValues(use.block, range)).take((read) => read.slice());
        ranges.push({ block: use.block, kind: 'value', range, values });
      }
    }
  }
  return { epoch, step, ranges } satisfies HeldState;
}

/** A range out of what there is, perhaps from several; the first that has an element counts: masters before halves. */
function found({ ranges }: HeldState, { block, kind, range }: Transfer): Float32Array<ArrayBuffer> {
  const values = new Float32Array(range[1] - range[0]);
  let missing = values.length;
  const written = new Uint8Array(values.length);
  for (const held of ranges) {
    const shared = held.block === block && held.kind === kind ? overlap(held.range, range) : null;
    if (!shared || missing === 0) continue;
    for (let i = shared[0]; i < shared[1]; i++) {
      if (written[i - range[0]] === 1) continue;
      const place = i - held.range[0];
      values[i - range[0]] = held.values[place] ?? outside(held.values, place);
      written[i - range[0]] = 1;
      missing--;
    }
  }
  invariant(missing === 0, `${kind} of ${block} [${range.join(', ')}) is not here`);
  return values;
}

/** Puts a range into every stage and shard of the new role that has a place for it. */
function put({ stages, uses, shards }: Role, { block, kind, range }: Transfer, values: Float32Array): void {
  shards.writeState(block, range, kind, values);
  if (kind !== 'value') return;
  for (const [index, stage] of stages) {
    if (uses.get(index)?.some((use) => use.block === block)) stage.writeValues(block, range, values);
  }
}

interface Move {
  readonly model: Model;
  readonly kinds: readonly StateKind[];
  /** As in `transfers`. */
  readonly keptOnly: boolean;
  readonly me: PeerId;
  readonly before: Plan;
  readonly after: Plan;
  readonly epoch: number;
  readonly step: number;
  /** Null where this peer had no part in the plan before. */
  readonly had: HeldState | null;
  /** Null where it has none in the new one. */
  readonly role: Role | null;
  send(to: PeerId, key: TensorKey, values: Float32Array): Promise<void>;
  receive(key: TensorKey, from: PeerId): Promise<Float32Array>;
}

/** Gives and takes what `transfers` lists; resolves when all of this peer's part is done. */
export async function move({
  model,
  kinds,
  keptOnly,
  me,
  before,
  after,
  epoch,
  step,
  had,
  role,
  send,
  receive,
}: Move): Promise<void> {
  const keyOf = (transfer: Transfer): TensorKey => ({ ...stateTensor(model, kinds, transfer), epoch, step });
  const work: Promise<void>[] = [];
  for (const transfer of transfers(model, kinds, before, after, keptOnly)) {
    const { from, to } = transfer;
    if (to === me && from !== me) {
      invariant(role, 'a peer without a role is given nothing');
      work.push(receive(keyOf(transfer), from).then((values) => put(role, transfer, sound(values, transfer))));
    }
    if (from !== me) continue;
    invariant(had, 'a peer that had nothing gives nothing');
    const values = found(had, transfer);
    if (to !== me) work.push(send(to, keyOf(transfer), values));
    else if (role) put(role, transfer, values);
  }
  await Promise.all(work);
}
