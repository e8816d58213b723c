/**
 * One attempt at a meeting of groups, at one keeper: it says what its group's islands changed of the ranges that it is the
 * primary of, takes what is said of all that it keeps, and works out what comes of it beside what there is. Nothing of the
 * state changes, so that an attempt may be given up at any moment. Rules IS in SPEC.md.
 */
import { got, overlap, type Range } from '../../../swarm/base.ts';
import { type Contribution, meetSaid } from '../../../swarm/islands/outer.ts';
import type { ShardWork } from '../../../swarm/memory/memory.ts';
import type { MetMessage } from '../../../swarm/messages/messages.ts';
import type { PacketPassage } from '../../../swarm/ways/packets.ts';
import { IslandPackets, type MeetingParts, type Said } from './islandPackets.ts';
import { type MeetingPlanes, type MetPlanes, planeTensors } from './islandShards.ts';
import type { OwnedPlanes } from './ownedStore.ts';

/** What comes of a meeting: of all that a peer keeps, and what it owns from then on. */
export interface Outcome {
  readonly shards: ReadonlyMap<ShardWork, MetPlanes>;
  readonly owned: readonly OwnedPlanes[];
}

/** With what is said of it to the server. */
export interface Held {
  readonly outcome: Outcome;
  readonly said: Pick<MetMessage, 'digests' | 'owned' | 'heard'>;
}

/** What an island says of a shard's range: piece by piece, or (f32) all differences. */
type SaidOfShard = Said | Float32Array;

interface Shard {
  readonly work: ShardWork;
  readonly isPrimary: boolean;
  readonly planes: MeetingPlanes;
  /** By island: of the group's own where this peer is the primary. */
  readonly said: Map<number, SaidOfShard>;
}

export class Meeting {
  readonly #parts: MeetingParts;
  readonly #packets: IslandPackets;

  constructor(parts: MeetingParts) {
    this.#parts = parts;
    this.#packets = new IslandPackets(parts);
  }

  /** Everything of this peer's part. */
  async hold(): Promise<Held> {
    const shards: Shard[] = [];
    const sends: Promise<void>[] = [];
    for (const { work, isPrimary } of this.#packets.kept) {
      const planes = this.#packets.planesAt.meetingPlanes(work, this.#parts.ends);
      const shard = { work, isPrimary, planes, said: new Map<number, SaidOfShard>() };
      shards.push(shard);
      if (isPrimary) sends.push(...(await this.#say(shard)));
    }
    const sent = Promise.all(sends);
    sent.catch(() => undefined); // awaited below, unless what is received fails first
    const digests: MetMessage['digests'][number][] = [];
    for (const shard of shards) {
      await this.#take(shard);
      const { work, said } = shard;
      const pieces = (island: number, piece: Range) => pieceOf(work, got(said, island), piece);
      await this.#packets.hear(work, [...said.keys()], pieces);
      await this.#settle(shard);
      const { shared, velocity, published } = shard.planes;
      const planes = [shared, velocity, ...(published ? [published] : [])];
      digests.push(...(await this.#packets.digests(shard.work, planes)));
    }
    await sent;
    const outcome = { shards: new Map(shards.map(({ work, planes }) => [work, planes])), owned: [] };
    return { outcome, said: { digests, ...this.#packets.heard } };
  }

  /** Of a shard that this peer is the primary of. */
  async #say({ work, planes, said }: Shard): Promise<Promise<void>[]> {
    for (const [island, found] of await this.#packets.say(work, planes)) said.set(island, this.#whole(work, found));
    return this.#passagesOf(work, 'from')
      .filter(({ island }) => said.has(island))
      .map((passage) => this.#packets.send(passage, (piece) => pieceOf(work, got(said, passage.island), piece)));
  }

  /** Waits for what others say of a shard. */
  async #take({ work, isPrimary, planes, said }: Shard): Promise<void> {
    const found = new Map<number, Said>();
    const takes = this.#passagesOf(work, 'to').map(async (passage) => {
      const taken = await this.#packets.receive(passage);
      const own = found.get(passage.island) ?? new Map<number, Contribution>();
      found.set(passage.island, own);
      for (const [place, one] of taken) own.set(place, one);
    });
    await Promise.all(takes);
    for (const [island, all] of found) said.set(island, this.#whole(work, all));
    if (!isPrimary) await this.#packets.follow(work, planes, found);
  }

  async #settle({ work, planes, said }: Shard): Promise<void> {
    const { settings, role, message } = this.#parts;
    const tensors = planeTensors(role.model, work.block, work.range, work.range);
    const [first] = work.range;
    const answer = (island: number, [from, to]: Range): Contribution =>
      pieceOf(work, got(said, island), [first + from, first + to]);
    for (const elements of meetSaid(settings, tensors, planes, message.steps, answer))
      await this.#packets.work.did(elements);
    said.clear();
  }

  /** Packets of a shard that this peer sends, or is sent. */
  #passagesOf(work: ShardWork, end: 'from' | 'to'): PacketPassage[] {
    const { passages, role } = this.#parts;
    return passages.flatMap((passage) => {
      const isOfShard = passage.block === work.block && overlap(passage.range, work.range) !== null;
      return passage[end] === role.peer && isOfShard && passage.island !== null ? passage : [];
    });
  }

  /** Pieces put together: with f32 they are cut otherwise on the way than where they are added. */
  #whole({ range: [from, to] }: ShardWork, found: Said): SaidOfShard {
    if (this.#parts.settings.exchange !== 'f32') return found;
    const all = new Float32Array(to - from);
    for (const [place, part] of found) if (part instanceof Float32Array) all.set(part, place - from);
    return all;
  }
}

const pieceOf = ({ range: [first] }: ShardWork, said: SaidOfShard, [from, to]: Range): Contribution =>
  said instanceof Float32Array ? said.subarray(from - first, to - first) : got(said, from);
