/**
 * One attempt at a meeting of groups, at one keeper: it says what its group's islands changed of the ranges that it is the
 * primary of, takes what is said of all that it keeps, and works out what comes of it beside what there is. Nothing of the
 * state changes, so that an attempt may be given up at any moment. Rules IS in SPEC.md.
 */
import { at, got, overlap, type PeerId, type Range } from '../../../swarm/base.ts';
import { type Contribution, contribution, grown, meetSaid, pieces, takeOut } from '../../../swarm/islands/outer.ts';
import { decodePacket, encodePacket } from '../../../swarm/islands/packet.ts';
import type { ShardWork } from '../../../swarm/memory/shardMemory.ts';
import type { TensorKey } from '../../../swarm/messages/frame.ts';
import type { MeetMessage, MetMessage } from '../../../swarm/messages/messages.ts';
import { keepersOf } from '../../../swarm/plan/plan.ts';
import type { Islands } from '../../../swarm/run/runFile.ts';
import { meetingCuts, type PacketPassage } from '../../../swarm/ways/meeting.ts';
import { BadTensorError } from './epochs.ts';
import { type IslandShards, type MeetingPlanes, planeTensors, type RoundEnds } from './islandShards.ts';
import { LongWork } from './longWork.ts';
import type { Role } from './role.ts';
import { digestOf } from './slices.ts';

/** What comes of a meeting, of all that a peer keeps. */
export type Outcome = ReadonlyMap<ShardWork, MeetingPlanes>;

interface Ways {
  /** Resolves when the link has taken it all. */
  send(to: PeerId, key: TensorKey, words: Float32Array): Promise<void>;
  receive(key: TensorKey, from: PeerId): Promise<Float32Array<ArrayBuffer>>;
}

/** What an island says of a shard's range, piece by piece: by where the piece begins, or (f32) all differences. */
type Said = ReadonlyMap<number, Contribution> | Float32Array;

interface Shard {
  readonly work: ShardWork;
  readonly isPrimary: boolean;
  readonly planes: MeetingPlanes;
  /** By island: of the group's own where this peer is the primary. */
  readonly said: Map<number, Said>;
}

export class Meeting {
  readonly #role: Role;
  readonly #shards: IslandShards;
  readonly #settings: Islands;
  readonly #message: MeetMessage;
  readonly #ways: Ways;
  readonly #passages: readonly PacketPassage[];
  readonly #ends: RoundEnds;
  readonly #work = new LongWork();

  /** `passages`: of the islands that did anything in this round. `ends`: what they have come to. */
  constructor(
    role: Role,
    shards: IslandShards,
    settings: Islands,
    message: MeetMessage,
    passages: readonly PacketPassage[],
    ends: RoundEnds,
    ways: Ways,
  ) {
    this.#ends = ends;
    this.#role = role;
    this.#shards = shards;
    this.#settings = settings;
    this.#message = message;
    this.#ways = ways;
    this.#passages = passages;
  }

  /** Everything of this peer's part. */
  async hold(): Promise<{ readonly outcome: Outcome; readonly digests: MetMessage['digests'] }> {
    const shards: Shard[] = [];
    const sends: Promise<void>[] = [];
    for (const { work, isPrimary } of this.#kept) {
      const planes = this.#shards.meetingPlanes(work, this.#ends);
      const shard = { work, isPrimary, planes, said: new Map<number, Said>() };
      shards.push(shard);
      if (isPrimary) sends.push(...(await this.#say(shard)));
    }
    const sent = Promise.all(sends);
    sent.catch(() => undefined); // awaited below, unless what is received fails first
    const digests: MetMessage['digests'][number][] = [];
    for (const shard of shards) {
      await this.#take(shard);
      await this.#settle(shard);
      digests.push(...(await this.#digests(shard)));
    }
    await sent;
    return { outcome: new Map(shards.map(({ work, planes }) => [work, planes])), digests };
  }

  /** By the word of the meeting: of a group that lost a primary somebody else speaks for its islands. */
  get #kept(): readonly Pick<Shard, 'work' | 'isPrimary'>[] {
    const { kept, peer } = this.#role;
    const all = this.#message.groups.flatMap(({ state }) => state);
    return kept.flatMap((work) => {
      const shards = all.flatMap(({ block, shards: own }) => (block === work.block ? own : []));
      const mine = shards.find((one) => keepersOf(one).includes(peer) && overlap(one.range, work.range) !== null);
      return mine ? { work, isPrimary: mine.peer === peer } : [];
    });
  }

  /** What the group's islands did. Who did nothing says nothing. */
  get #own(): readonly (readonly [turn: number, island: number])[] {
    const { islands = [] } = this.#role.plan;
    return [...islands.entries()].filter(([, island]) => this.#steps(island) > 0);
  }

  #steps(island: number): number {
    return this.#message.steps[island] ?? 0;
  }

  /** Of a shard that this peer is the primary of. */
  async #say({ work, planes, said }: Shard): Promise<Promise<void>[]> {
    const { exchange } = this.#settings;
    for (const [turn, island] of this.#own) {
      const found = new Map<number, Contribution>();
      for (const tensor of this.#tensors(work, work.range))
        for (const piece of exchange === 'f32' ? [tensor] : pieces(exchange, tensor)) {
          found.set(piece[0], contribution(exchange, piece, planes, at(planes.islands, turn)));
          await this.#work.did(piece[1] - piece[0]);
        }
      said.set(island, exchange === 'f32' ? joined(work, found) : found);
    }
    const mine = this.#passages.filter(({ from, block, island, range }) => {
      const isHere = from === this.#role.peer && block === work.block && overlap(range, work.range) !== null;
      return isHere && said.has(island);
    });
    return mine.map((passage) => {
      const tensors = this.#tensors(work, passage.range);
      const found = tensors.flatMap((tensor) =>
        [...pieces(exchange, tensor)].map((piece) => saidOf(got(said, passage.island), piece)),
      );
      const { buffer } = encodePacket(exchange, tensors, found);
      return this.#ways.send(passage.to, this.#keyOf(passage), new Float32Array(buffer));
    });
  }

  /** Waits for what others say of a shard. */
  async #take({ work, isPrimary, planes, said }: Shard): Promise<void> {
    const { exchange } = this.#settings;
    const coming = this.#passages.filter(
      ({ to, block, range }) => to === this.#role.peer && block === work.block && overlap(range, work.range) !== null,
    );
    const found = new Map<number, Map<number, Contribution>>();
    const takes = coming.map(async (passage) => {
      const tensors = this.#tensors(work, passage.range);
      const words = await this.#ways.receive(this.#keyOf(passage), passage.from);
      const decoded = decodePacket(exchange, tensors, new Uint8Array(words.buffer));
      if (!decoded.ok) throw new BadTensorError(passage.from, `${packetText(passage)}: ${decoded.reason}`);
      const own = found.get(passage.island) ?? new Map<number, Contribution>();
      found.set(passage.island, own);
      for (const [place, [from]] of tensors.flatMap((tensor) => [...pieces(exchange, tensor)]).entries())
        own.set(from, at(decoded.value, place));
    });
    await Promise.all(takes);
    for (const [island, all] of found) said.set(island, exchange === 'f32' ? joined(work, all) : all);
    if (exchange === 'f32' || isPrimary) return;
    // A copy's left-over is what the primary's is: what was sent is taken out of it.
    for (const [turn, island] of this.#own)
      for (const tensor of this.#tensors(work, work.range))
        for (const piece of pieces(exchange, tensor)) {
          const run = saidOf(got(said, island), piece);
          const leftOver = grown(exchange, piece, planes, at(planes.islands, turn));
          if (!(run instanceof Float32Array)) takeOut(leftOver, piece[0], run);
          await this.#work.did(piece[1] - piece[0]);
        }
  }

  async #settle({ work, planes, said }: Shard): Promise<void> {
    const tensors = this.#tensors(work, work.range);
    const { steps } = this.#message;
    const answer = (island: number, piece: Range): Contribution => saidOf(got(said, island), piece);
    for (const elements of meetSaid(this.#settings, tensors, planes, steps, answer)) await this.#work.did(elements);
    said.clear();
  }

  #digests({ work, planes }: Shard): Promise<MetMessage['digests']> {
    const cuts = meetingCuts(this.#message.groups, work.block, work.range);
    return Promise.all(
      cuts.map(async (range) => {
        const [from, to] = range.map((place) => place - work.range[0]);
        const all = [planes.shared, planes.velocity, ...(planes.published ? [planes.published] : [])];
        const parts = all.map((plane) => plane.subarray(from, to));
        const joint = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0));
        for (const [place, part] of parts.entries()) joint.set(part, place * part.length);
        return { block: work.block, range, digest: await digestOf(joint) };
      }),
    );
  }

  #tensors({ block, range }: ShardWork, part: Range): Range[] {
    return planeTensors(this.#role.model, block, range, part);
  }

  #keyOf({ tensor }: PacketPassage): TensorKey {
    return { ...tensor, epoch: this.#message.attempt, step: 0 };
  }
}

const packetText = ({ from, island, block, range }: PacketPassage): string =>
  `${from} sent what island ${island} says of ${block} [${range.join(', ')})`;

/** Pieces put together: with f32 they are cut otherwise on the way than where they are added. */
function joined({ range: [from, to] }: ShardWork, found: ReadonlyMap<number, Contribution>): Float32Array {
  const all = new Float32Array(to - from);
  for (const [place, part] of found) if (part instanceof Float32Array) all.set(part, place);
  return all;
}

const saidOf = (said: Said, [from, to]: Range): Contribution =>
  said instanceof Float32Array ? said.subarray(from, to) : got(said, from);
