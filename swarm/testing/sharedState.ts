/**
 * For tests of decisions: which donors have what all islands share, where it lies with owners, as donors would have it who do
 * what a `meet` says. It judges that whoever is to work on a range has it, and that whoever saves has all of it.
 */
import { at, invariant, overlap, type PeerId, type Range, totalOf } from '../base.ts';
import type { OwnedRange } from '../messages/meetingWords.ts';
import type { MeetMessage, MetMessage, ServerMessage } from '../messages/messages.ts';
import { keepersOf, type Plan } from '../plan/plan.ts';

interface Had {
  readonly block: string;
  readonly range: Range;
  /** The meeting that it came of: committed steps. */
  readonly step: number;
}

export class SharedState {
  readonly #had = new Map<PeerId, readonly Had[]>();
  readonly #meetings = new Map<PeerId, MeetMessage>();
  readonly #savers = new Set<PeerId>();
  /** At so many steps all met last, and this is saved. */
  #met = 0;
  #saved = 0;

  /** What it says of what it owns then. */
  metBy(peer: PeerId, { owners }: MeetMessage): Pick<MetMessage, 'owned'> {
    const own = (owners?.ranges ?? []).filter(({ keep }) => keep.includes(peer));
    if (own.length === 0) return {};
    return { owned: own.map(({ block, range }) => ({ block, range, digest: 's'.padEnd(22, '-') })) };
  }

  told(to: PeerId, message: ServerMessage, plan: Plan | undefined): void {
    if (message.type === 'meet') this.#meets(to, message);
    if (message.type === 'meetingOver') this.#isOver(to);
    const saves = message.type === 'save' || (message.type === 'committed' && message.checkpoint);
    if (saves && plan?.owned)
      invariant(this.#savers.has(to) || !isKeeper(plan, to), `${to} saves what it has not been sent`);
  }

  saved(step: number): void {
    this.#saved = step;
  }

  /** All go back to a checkpoint. */
  back(step: number): void {
    this.#met = step;
  }

  #meets(to: PeerId, message: MeetMessage): void {
    this.#meetings.set(to, message);
    const { owners } = message;
    if (!owners) return;
    for (const range of owners.ranges) {
      const { have, keep } = range;
      invariant(new Set(keep).size === keep.length, 'a range has each of its owners once');
      for (const peer of have)
        invariant(this.#hasAll(peer, range), `${peer} is to have ${range.block} [${range.range.join(', ')})`);
      if (have.length === 0)
        invariant(
          owners.checkpoint === this.#met && this.#saved >= this.#met,
          `checkpoint ${owners.checkpoint} has what came of the meeting at ${this.#met}`,
        );
    }
  }

  #hasAll(peer: PeerId, { block, range: [from, to] }: OwnedRange): boolean {
    const parts = (this.#had.get(peer) ?? []).filter((one) => one.block === block && one.step === this.#met);
    const inside = parts.map(({ range }) => overlap(range, [from, to]));
    return totalOf(inside, (part) => (part ? part[1] - part[0] : 0)) === to - from;
  }

  #isOver(to: PeerId): void {
    const message = this.#meetings.get(to);
    if (!message?.end) return;
    this.#met = message.end;
    const { owners, groups, end: step } = message;
    const own = (owners?.ranges ?? []).filter(({ keep }) => keep.includes(to));
    this.#had.set(
      to,
      own.map(({ block, range }) => ({ block, range, step })),
    );
    const isIn = (place: number): boolean =>
      at(groups, place).state.some(({ shards }) => shards.some((shard) => keepersOf(shard).includes(to)));
    if (owners?.savedBy?.some(isIn)) this.#savers.add(to);
    else this.#savers.delete(to);
  }
}

const isKeeper = ({ state }: Plan, peer: PeerId): boolean =>
  state.some(({ shards }) => shards.some((shard) => keepersOf(shard).includes(peer)));
