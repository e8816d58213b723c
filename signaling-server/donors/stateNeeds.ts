/**
 * Which parts of a checkpoint a donor may read: those that the plan it gets ready for has it hold or keep, until its first
 * step starts, a few times over.
 */
import type { PeerId, Range } from '../../swarm/base.ts';
import type { ServerMessage } from '../../swarm/messages/messages.ts';
import type { BlockName } from '../../swarm/model/model.ts';
import { holdings, loadedBytes } from '../../swarm/plan/handover.ts';
import { type Plan, peers } from '../../swarm/plan/plan.ts';
import { loadedKinds, type StateKind } from '../../swarm/plan/stateKinds.ts';
import type { Sizes } from '../../swarm/ways/partners.ts';

/** A connection that fails in the middle begins again. */
const TIMES = 4;
const ELEMENT_BYTES = 4;

interface Need {
  readonly checkpoint: number;
  readonly plan: Plan;
  bytesLeft: number;
}

export interface StatePart {
  readonly checkpoint: number;
  readonly block: BlockName;
  readonly kind: StateKind;
  readonly range: Range;
}

export class StateNeeds {
  readonly #sizes: Pick<Sizes, 'model' | 'islands'>;
  readonly #needs = new Map<PeerId, Need>();

  constructor(sizes: Pick<Sizes, 'model' | 'islands'>) {
    this.#sizes = sizes;
  }

  /** What the server tells a donor, before it is sent. */
  told(to: PeerId, message: ServerMessage): void {
    if (message.type === 'start' || message.type === 'evaluate' || message.type === 'standby') this.#needs.delete(to);
    if (message.type !== 'prepare') return;
    const { plan, source } = message;
    this.#needs.delete(to);
    if (source.from === 'checkpoint' && peers(plan).includes(to))
      this.#needs.set(to, {
        checkpoint: source.step,
        plan,
        bytesLeft: TIMES * loadedBytes(this.#sizes.model, this.#sizes.islands, plan, to),
      });
  }

  gone(peer: PeerId): void {
    this.#needs.delete(peer);
  }

  /** Where it may, it has read this part once more. */
  mayRead(peer: PeerId, { checkpoint, block, kind, range: [from, to] }: StatePart): boolean {
    const need = this.#needs.get(peer);
    if (need?.checkpoint !== checkpoint) return false;
    if (!loadedKinds(this.#sizes.islands, need.plan.islands, need.plan.owned).includes(kind)) return false;
    const isHeld = holdings(this.#sizes.model, need.plan, peer, block, kind).some(
      (held) => held[0] <= from && to <= held[1],
    );
    const bytes = (to - from) * ELEMENT_BYTES;
    if (!isHeld || need.bytesLeft < bytes) return false;
    need.bytesLeft -= bytes;
    return true;
  }
}
