/**
 * What islands say at a meeting: how a keeper makes the packets of its group's, and reads those of others; all is named by
 * elements of a block. Rules IS in SPEC.md.
 */
import { at, got, invariant, overlap, type PeerId, type Range } from '../../../swarm/base.ts';
import {
  type Contribution,
  contribution,
  grown,
  type IslandPlanes,
  pieces,
  takeOut,
} from '../../../swarm/islands/outer.ts';
import { decodePacket, encodePacket } from '../../../swarm/islands/packet.ts';
import type { ShardWork } from '../../../swarm/memory/memory.ts';
import type { TensorKey } from '../../../swarm/messages/frame.ts';
import { type HeardRange, MOST_HEARD } from '../../../swarm/messages/meetingWords.ts';
import type { MeetMessage, MetMessage } from '../../../swarm/messages/messages.ts';
import { tensorParts } from '../../../swarm/model/layout.ts';
import { type BlockName, block } from '../../../swarm/model/model.ts';
import { keepersOf } from '../../../swarm/plan/plan.ts';
import type { SharedKind } from '../../../swarm/plan/stateKinds.ts';
import type { Islands } from '../../../swarm/run/runFile.ts';
import { type Cuts, type MeetingPassage, meetingCuts } from '../../../swarm/ways/meeting.ts';
import type { PacketPassage } from '../../../swarm/ways/packets.ts';
import { BadTensorError } from './epochs.ts';
import { type IslandShards, planeTensors, type RoundEnds } from './islandShards.ts';
import { LongWork } from './longWork.ts';
import type { Role } from './role.ts';
import { digestOf } from './slices.ts';

export interface MeetingWays {
  /** Resolves when the link has taken it all. */
  send(to: PeerId, key: TensorKey, words: Float32Array): Promise<void>;
  receive(key: TensorKey, from: PeerId): Promise<Float32Array<ArrayBuffer>>;
  /** Of a checkpoint: a range of what islands share. */
  read(checkpoint: number, name: BlockName, kind: SharedKind | 'value', range: Range): Promise<Float32Array>;
}

/** An attempt, at one peer. */
export interface MeetingParts {
  readonly role: Pick<Role, 'model' | 'peer' | 'kept'> & { readonly plan: Pick<Role['plan'], 'islands'> };
  /** Null: this peer keeps nothing. */
  readonly shards: IslandShards | null;
  readonly settings: Islands;
  readonly message: MeetMessage;
  /** Of the islands that did anything in this round. */
  readonly passages: readonly MeetingPassage[];
  /** What they have come to. */
  readonly ends: RoundEnds;
  readonly ways: MeetingWays;
}

/** What an island says, by where each piece begins in the block. */
export type Said = Map<number, Contribution>;

/** What islands change, and what says how. */
interface Changed {
  readonly published: Float32Array | null;
  readonly shared: Float32Array;
  readonly islands: readonly IslandPlanes[];
}

export class IslandPackets {
  readonly work = new LongWork();
  readonly #parts: MeetingParts;
  readonly #cuts: Cuts;
  readonly #heard: HeardRange[] = [];
  /** Digests of it. */
  #hearing = 0;

  constructor(parts: MeetingParts) {
    this.#parts = parts;
    this.#cuts = meetingCuts(parts.message.groups, parts.message.owners);
  }

  get planesAt(): IslandShards {
    invariant(this.#parts.shards, 'who keeps something has a place for it');
    return this.#parts.shards;
  }

  /** By the word of the meeting: of a group that lost a primary somebody else speaks for its islands. */
  get kept(): readonly { readonly work: ShardWork; readonly isPrimary: boolean }[] {
    const { kept, peer } = this.#parts.role;
    const all = this.#parts.message.groups.flatMap(({ state }) => state);
    return kept.flatMap((work) => {
      const shards = all.flatMap(({ block: name, shards: own }) => (name === work.block ? own : []));
      const mine = shards.find((one) => keepersOf(one).includes(peer) && overlap(one.range, work.range) !== null);
      return mine ? { work, isPrimary: mine.peer === peer } : [];
    });
  }

  /** What the group's islands did. Who did nothing says nothing. */
  get own(): readonly (readonly [turn: number, island: number])[] {
    const { islands = [] } = this.#parts.role.plan;
    return [...islands.entries()].filter(([, island]) => (this.#parts.message.steps[island] ?? 0) > 0);
  }

  /** Of a shard that this peer is the primary of, by island. Takes it out of what is left over. */
  async say(work: ShardWork, planes: Changed): Promise<Map<number, Said>> {
    const { exchange } = this.#parts.settings;
    const said = new Map<number, Said>();
    for (const [turn, island] of this.own) {
      const found: Said = new Map();
      for (const tensor of this.#tensorsOf(work))
        for (const piece of exchange === 'f32' ? [tensor] : pieces(exchange, tensor)) {
          found.set(work.range[0] + piece[0], contribution(exchange, piece, planes, at(planes.islands, turn)));
          await this.work.did(piece[1] - piece[0]);
        }
      said.set(island, found);
    }
    return said;
  }

  /** A copy's left-over is what the primary's is: what was sent is taken out of it. */
  async follow(work: ShardWork, planes: Changed, said: ReadonlyMap<number, Said>): Promise<void> {
    const { exchange } = this.#parts.settings;
    if (exchange === 'f32') return;
    for (const [turn, island] of this.own)
      for (const tensor of this.#tensorsOf(work))
        for (const piece of pieces(exchange, tensor)) {
          const run = got(got(said, island), work.range[0] + piece[0]);
          const leftOver = grown(exchange, piece, planes, at(planes.islands, turn));
          if (!(run instanceof Float32Array)) takeOut(leftOver, piece[0], run);
          await this.work.did(piece[1] - piece[0]);
        }
  }

  /** `said`: of each piece of its range. */
  send(passage: PacketPassage, said: (piece: Range) => Contribution): Promise<void> {
    const { exchange } = this.#parts.settings;
    const tensors = this.tensors(passage);
    const { buffer } = encodePacket(exchange, tensors, this.#piecesOf(tensors).map(said));
    return this.#parts.ways.send(passage.to, this.keyOf(passage), new Float32Array(buffer));
  }

  /** Whether it has a form is looked at here. */
  async receive(passage: PacketPassage): Promise<Said> {
    const tensors = this.tensors(passage);
    const words = await this.#parts.ways.receive(this.keyOf(passage), passage.from);
    const decoded = decodePacket(this.#parts.settings.exchange, tensors, new Uint8Array(words.buffer));
    if (!decoded.ok) {
      const { from, island, block: name, range } = passage;
      const what = `${from} sent what island ${island} says of ${name} [${range.join(', ')})`;
      throw new BadTensorError(from, `${what}: ${decoded.reason}`);
    }
    return new Map(this.#piecesOf(tensors).map(([from], place) => [from, at(decoded.value, place)]));
  }

  keyOf({ tensor }: MeetingPassage): TensorKey {
    return { ...tensor, epoch: this.#parts.message.attempt, step: 0 };
  }

  /** Those of a range, by elements of the block. */
  tensors({ block: name, range }: { readonly block: BlockName; readonly range: Range }): Range[] {
    return tensorParts(block(this.#parts.role.model, name), range);
  }

  /** Of some planes of a shard, one after the other, cut so that whoever keeps any of it can be compared. */
  async digests(
    work: { readonly block: string; readonly range: Range },
    planes: readonly Float32Array[],
  ): Promise<MetMessage['digests']> {
    const cuts = this.#cuts(work.block, work.range);
    return Promise.all(cuts.map((range) => digestOfPlanes(work, range, planes)));
  }

  /** Where it is asked for: what is known here of what islands say of a range, cut as above. `said`: of a piece of the block. */
  async hear(
    { block: name, range }: Pick<ShardWork, 'block' | 'range'>,
    islands: readonly number[],
    said: (island: number, piece: Range) => Contribution,
  ): Promise<void> {
    const { message, settings } = this.#parts;
    if (!message.traced) return;
    for (const part of this.#cuts(name, range)) {
      this.#hearing += islands.length;
      if (this.#hearing > MOST_HEARD) return;
      const tensors = this.tensors({ block: name, range: part });
      const digests: string[] = [];
      for (const island of islands) {
        const own = this.#piecesOf(tensors).map((piece) => said(island, piece));
        const { buffer } = encodePacket(settings.exchange, tensors, own).slice();
        digests.push(await digestOf(new Float32Array(buffer)));
        await this.work.did(part[1] - part[0]);
      }
      this.#heard.push({ block: name, range: part, islands: [...islands], digests });
    }
  }

  /** All of it, or nothing where it is too much for one message. */
  get heard(): Pick<MetMessage, 'heard'> {
    return this.#parts.message.traced && this.#hearing <= MOST_HEARD ? { heard: this.#heard } : {};
  }

  #tensorsOf({ block: name, range }: ShardWork): Range[] {
    return planeTensors(this.#parts.role.model, name, range, range);
  }

  #piecesOf(tensors: readonly Range[]): Range[] {
    return tensors.flatMap((tensor) => [...pieces(this.#parts.settings.exchange, tensor)]);
  }
}

/** `planes`: of the range `of`. */
export async function digestOfPlanes(
  { block: name, range: [first] }: { readonly block: string; readonly range: Range },
  range: Range,
  planes: readonly Float32Array[],
): Promise<MetMessage['digests'][number]> {
  const length = range[1] - range[0];
  const joint = new Float32Array(planes.length * length);
  for (const [place, plane] of planes.entries())
    joint.set(plane.subarray(range[0] - first, range[1] - first), place * length);
  return { block: name, range, digest: await digestOf(joint) };
}
