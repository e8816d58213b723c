/**
 * Which parts of a checkpoint a donor may read: those that the plan it gets ready for has it hold or keep, until its first
 * step starts, and those that it is to own at a meeting, until that is over; a few times over.
 */
import type { PeerId, Range } from '../../swarm/base.ts';
import type { MeetingOwners } from '../../swarm/messages/meetingWords.ts';
import type { ServerMessage } from '../../swarm/messages/messages.ts';
import type { BlockName } from '../../swarm/model/model.ts';
import { holdings, loadedBytes } from '../../swarm/plan/handover.ts';
import { peers } from '../../swarm/plan/plan.ts';
import { FLOAT_BYTES, loadedKinds, type StateKind } from '../../swarm/plan/stateKinds.ts';
import type { Sizes } from '../../swarm/ways/partners.ts';

/** A connection that fails in the middle begins again. */
const TIMES = 4;

/** What an owner has of a range, as a checkpoint has it: what was published is saved as the value. */
const OWNED_KINDS: readonly StateKind[] = ['value', 'shared', 'velocity'];

/** Of one checkpoint. */
interface Need {
  readonly checkpoint: number;
  isPart(part: StatePart): boolean;
  bytesLeft: number;
}

interface StatePart {
  readonly checkpoint: number;
  readonly block: BlockName;
  readonly kind: StateKind;
  readonly range: Range;
}

export class StateNeeds {
  readonly #sizes: Pick<Sizes, 'model' | 'islands'>;
  /** For a plan, and for a meeting. */
  readonly #needs = new Map<PeerId, Need>();
  readonly #owners = new Map<PeerId, Need>();

  constructor(sizes: Pick<Sizes, 'model' | 'islands'>) {
    this.#sizes = sizes;
  }

  /** What the server tells a donor, before it is sent. */
  told(to: PeerId, message: ServerMessage): void {
    switch (message.type) {
      case 'start':
      case 'evaluate':
        this.#needs.delete(to);
        return;
      case 'standby':
        // A spare one may be an owner.
        if (message.state === 'spare') this.#needs.delete(to);
        else this.gone(to);
        return;
      case 'meetingOver':
        this.#owners.delete(to);
        return;
      case 'meet':
        this.#meet(to, message.owners);
        return;
      case 'prepare':
        this.gone(to);
        this.#prepare(to, message);
        return;
      default:
        return;
    }
  }

  gone(peer: PeerId): void {
    this.#needs.delete(peer);
    this.#owners.delete(peer);
  }

  /** Where it may, it has read this part once more. */
  mayRead(peer: PeerId, part: StatePart): boolean {
    const bytes = (part.range[1] - part.range[0]) * FLOAT_BYTES;
    const need = [this.#needs.get(peer), this.#owners.get(peer)].find(
      (one) => one?.checkpoint === part.checkpoint && one.bytesLeft >= bytes && one.isPart(part),
    );
    if (!need) return false;
    need.bytesLeft -= bytes;
    return true;
  }

  #prepare(to: PeerId, { plan, source }: Extract<ServerMessage, { type: 'prepare' }>): void {
    if (source.from !== 'checkpoint' || !peers(plan).includes(to)) return;
    const { model, islands } = this.#sizes;
    const kinds = loadedKinds(islands, plan.islands, plan.owned);
    this.#needs.set(to, {
      checkpoint: source.step,
      isPart: ({ block, kind, range }) =>
        kinds.includes(kind) && holdings(model, plan, to, block, kind).some((held) => isWithin(range, held)),
      bytesLeft: TIMES * loadedBytes(model, islands, plan, to),
    });
  }

  /** Of ranges that nobody has, and that it is to have. */
  #meet(to: PeerId, owners: MeetingOwners | undefined): void {
    this.#owners.delete(to);
    const ranges = owners?.ranges.filter(({ have, keep }) => have.length === 0 && keep.includes(to)) ?? [];
    if (owners?.checkpoint === undefined || ranges.length === 0) return;
    const elements = ranges.reduce((sum, { range }) => sum + range[1] - range[0], 0);
    this.#owners.set(to, {
      checkpoint: owners.checkpoint,
      isPart: ({ block, kind, range }) =>
        OWNED_KINDS.includes(kind) && ranges.some((own) => own.block === block && isWithin(range, own.range)),
      bytesLeft: TIMES * OWNED_KINDS.length * FLOAT_BYTES * elements,
    });
  }
}

const isWithin = ([from, to]: Range, [first, end]: Range): boolean => first <= from && to <= end;
