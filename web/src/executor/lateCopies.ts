/**
 * This peer's part in the copies that are made beside a plan's steps (swarm/plan/lateCopies.ts): it sends and takes what
 * the server says of each step, as it stands before that step's update.
 */
import { overlap, type PeerId, type Range } from '../../../swarm/base.ts';
import type { TensorKey } from '../../../swarm/messages/frame.ts';
import type { BlockName, Model } from '../../../swarm/model/model.ts';
import type { Transfer } from '../../../swarm/plan/handover.ts';
import type { StateKind } from '../../../swarm/plan/stateKinds.ts';
import { lateTensor } from '../../../swarm/ways/tensors.ts';
import type { Shards } from './engine.ts';
import { BadTensorError } from './epochs.ts';
import type { Receive } from './surroundings.ts';

/** Of the role here. */
interface Role {
  readonly model: Model;
  readonly kinds: readonly StateKind[];
  readonly epoch: number;
  readonly peer: PeerId;
  readonly shards: Shards;
}

/** From which to before which of the list. */
export type CopyTurn = readonly [number, number];

export class LateCopies {
  readonly #list: readonly Transfer[];
  readonly #missing: Set<Transfer>;

  constructor(list: readonly Transfer[], me: PeerId) {
    this.#list = list;
    this.#missing = new Set(list.filter(({ to }) => to === me));
  }

  /** Some of it is not here yet. */
  lacks(block: BlockName, range: Range): boolean {
    return [...this.#missing].some((one) => one.block === block && overlap(one.range, range) !== null);
  }

  /** Resolves when what is sent is read: updates may change it then. */
  async give(
    role: Role,
    step: number,
    turn: CopyTurn,
    send: (to: PeerId, key: TensorKey, values: Float32Array) => Promise<void>,
  ): Promise<void> {
    for (const transfer of this.#list.slice(...turn)) {
      if (transfer.from !== role.peer) continue;
      const state = await role.shards.readState(transfer.block, transfer.range, [transfer.kind]);
      // Nobody waits for the link here: whoever takes it says when it is there, by its report of the next step.
      send(transfer.to, keyOf(role, transfer, step), state).catch(() => undefined);
    }
  }

  /** Resolves when all of it is in its place. */
  async take(role: Role, step: number, turn: CopyTurn, receive: Receive): Promise<void> {
    const mine = this.#list.slice(...turn).filter(({ to }) => to === role.peer);
    await Promise.all(
      mine.map(async (transfer) => {
        const values = await receive(keyOf(role, transfer, step), transfer.from);
        role.shards.writeState(transfer.block, transfer.range, transfer.kind, sound(values, transfer));
        this.#missing.delete(transfer);
      }),
    );
  }
}

const keyOf = ({ model, kinds, epoch }: Role, transfer: Transfer, step: number): TensorKey => ({
  ...lateTensor(model, kinds, transfer),
  epoch,
  step,
});

/** It is refused before it is in any stage or shard. */
export function sound(values: Float32Array, { from, block, kind, range }: Transfer): Float32Array {
  if (values.every(Number.isFinite)) return values;
  throw new BadTensorError(from, `${from} handed over ${kind} of ${block} [${range.join(', ')}) that is not finite`);
}
