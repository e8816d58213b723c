/**
 * One attempt at a meeting where what islands share lies with owners, at one donor. As a primary it says what its group's
 * islands changed; as a worker of a range it adds what all say, takes the outer step, and sends on what comes of it; as a
 * keeper it adds what is published to what it has. All of it beside what there is, as at any meeting. Everyone says first,
 * then works, and waits for others' work last, so that nobody waits in a circle. Rules IS in SPEC.md.
 */
import { at, got, invariant, overlap, type PeerId, type Range } from '../../../swarm/base.ts';
import { addCodes, areSoundCodes, PublishedCodes } from '../../../swarm/islands/codes.ts';
import { type Contribution, meetSaid } from '../../../swarm/islands/outer.ts';
import type { ShardWork } from '../../../swarm/memory/memory.ts';
import type { MeetingOwners, OwnedRange } from '../../../swarm/messages/meetingWords.ts';
import type { MetMessage } from '../../../swarm/messages/messages.ts';
import type { BlockName } from '../../../swarm/model/model.ts';
import { keepersOf } from '../../../swarm/plan/plan.ts';
import { SHARED_KINDS } from '../../../swarm/plan/stateKinds.ts';
import type { MeetingPassage } from '../../../swarm/ways/meeting.ts';
import { type OwnedPassage, workersOf } from '../../../swarm/ways/ownedPassages.ts';
import type { PacketPassage } from '../../../swarm/ways/packets.ts';
import { isSound } from '../../../swarm/wire.ts';
import { BadTensorError } from './epochs.ts';
import { digestOfPlanes, IslandPackets, type MeetingParts, type Said } from './islandPackets.ts';
import { type MetPlanes, type OwnPlanes, planeTensors } from './islandShards.ts';
import type { Held } from './meeting.ts';
import { copyPart, emptyPlanes, type OwnedPlanes, type OwnedStore, type PartialPlanes } from './ownedStore.ts';

interface Shard {
  readonly work: ShardWork;
  readonly isPrimary: boolean;
  readonly planes: OwnPlanes;
}

/** A range of which this donor has what comes of the meeting. */
interface Found {
  readonly owned: OwnedRange;
  readonly planes: OwnedPlanes;
}

export class OwnedMeeting {
  readonly #parts: MeetingParts;
  readonly #owners: MeetingOwners;
  readonly #store: Pick<OwnedStore, 'copyOf'>;
  readonly #packets: IslandPackets;
  /** Of this peer's own. */
  readonly #from: readonly MeetingPassage[];
  readonly #to: readonly MeetingPassage[];
  /** What islands say: by block and island. What was made here too. */
  readonly #said = new Map<BlockName, Map<number, Said>>();
  readonly #sends: Promise<void>[] = [];

  constructor(parts: MeetingParts, owners: MeetingOwners, store: Pick<OwnedStore, 'copyOf'>) {
    invariant(parts.settings.exchange !== 'f32' && parts.settings.publish === 'int8', 'owners publish codes');
    this.#parts = parts;
    this.#owners = owners;
    this.#store = store;
    this.#packets = new IslandPackets(parts);
    this.#from = parts.passages.filter(({ from }) => from === parts.role.peer);
    this.#to = parts.passages.filter(({ to }) => to === parts.role.peer);
  }

  async hold(): Promise<Held> {
    const shards: Shard[] = [];
    for (const { work, isPrimary } of this.#packets.kept) {
      const shard = { work, isPrimary, planes: this.#packets.planesAt.ownPlanes(work, this.#parts.ends) };
      shards.push(shard);
      if (isPrimary) await this.#say(shard);
    }
    const worked: Found[] = [];
    for (const { name } of this.#parts.role.model.blocks) worked.push(...(await this.#take(name, shards)));
    const found = [...worked, ...(await this.#receiveOwned())];
    for (const shard of shards) await this.#publish(shard, worked);
    const outcomes = new Map<ShardWork, MetPlanes>();
    const digests: MetMessage['digests'][number][] = [];
    for (const { work, planes } of shards) {
      outcomes.set(work, { ...planes, ...(await this.#saved(work, found)) });
      digests.push(...(await this.#packets.digests(work, [planes.published])));
    }
    const kept = found.filter(({ owned }) => owned.keep.includes(this.#parts.role.peer));
    const owned: MetMessage['digests'][number][] = [];
    for (const { owned: of, planes } of kept) {
      const all = SHARED_KINDS.map((kind) => planes[kind]);
      owned.push(await digestOfPlanes(of, of.range, all));
      // Who keeps it too says what it has as a keeper.
      const isSaid = ({ block, range }: { readonly block: string; readonly range: Range }): boolean =>
        shards.some(({ work }) => work.block === block && overlap(work.range, range) !== null);
      digests.push(...(await this.#packets.digests(of, [planes.published])).filter((part) => !isSaid(part)));
    }
    await Promise.all(this.#sends);
    return {
      outcome: { shards: outcomes, owned: kept.map(({ planes }) => planes) },
      said: { digests, owned, ...this.#packets.heard },
    };
  }

  /** Of a shard that this peer is the primary of. */
  async #say({ work, planes }: Shard): Promise<void> {
    const said = await this.#packets.say(work, changed(planes));
    for (const [island, own] of said) this.#add(work.block, island, own);
    for (const passage of packetsOf(this.#from, work.block))
      if (overlap(passage.range, work.range))
        this.#send(this.#packets.send(passage, ([from]) => got(got(said, passage.island), from)));
  }

  /** Waits for what islands say of a block. What this peer works out of it goes on its way. */
  async #take(name: BlockName, shards: readonly Shard[]): Promise<Found[]> {
    await Promise.all(
      packetsOf(this.#to, name).map(async (passage) =>
        this.#add(name, passage.island, await this.#packets.receive(passage)),
      ),
    );
    const said = this.#said.get(name) ?? new Map<number, Said>();
    for (const { work, isPrimary, planes } of shards)
      if (work.block === name && !isPrimary) await this.#packets.follow(work, changed(planes), said);
    const found: Found[] = [];
    for (const owned of this.#owners.ranges)
      if (owned.block === name && workersOf(owned).includes(this.#parts.role.peer))
        found.push({ owned, planes: await this.#work(name, owned, said) });
    await this.#hear(name, shards, said);
    this.#said.delete(name);
    return found;
  }

  /** What it knows of islands: of its own group's all that it keeps, of all of them what it works on. */
  async #hear(name: BlockName, shards: readonly Shard[], said: ReadonlyMap<number, Said>): Promise<void> {
    const pieceOf = (island: number, [from]: Range): Contribution => got(got(said, island), from);
    const own = this.#packets.own.map(([, island]) => island);
    for (const { work } of shards) if (work.block === name) await this.#packets.hear(work, own, pieceOf);
    for (const { block, range, ...owned } of this.#owners.ranges)
      if (block === name && workersOf(owned).includes(this.#parts.role.peer))
        await this.#packets.hear({ block: name, range }, [...said.keys()], pieceOf);
  }

  #add(name: BlockName, island: number, own: Said): void {
    const ofBlock = this.#said.get(name) ?? new Map<number, Said>();
    this.#said.set(name, ofBlock);
    const known = ofBlock.get(island) ?? new Map<number, Contribution>();
    ofBlock.set(island, known);
    for (const [place, one] of own) known.set(place, one);
  }

  /** The outer step of a range. */
  async #work(name: BlockName, owned: OwnedRange, said: ReadonlyMap<number, Said>): Promise<OwnedPlanes> {
    const { settings, role, message } = this.#parts;
    const planes = owned.have.length > 0 ? this.#store.copyOf(owned) : await this.#read(name, owned);
    const [first] = owned.range;
    const tensors = planeTensors(role.model, name, owned.range, owned.range);
    let codes: PublishedCodes | null = null;
    if (this.#hasSteps) {
      codes = new PublishedCodes(tensors);
      const answer = (island: number, [from]: Range): Contribution => got(got(said, island), first + from);
      for (const elements of meetSaid(settings, tensors, planes, message.steps, answer, codes))
        await this.#packets.work.did(elements);
    }
    this.#sendOn(name, owned, planes, codes);
    return planes;
  }

  async #read(block: BlockName, { range }: OwnedRange): Promise<OwnedPlanes> {
    const { checkpoint } = this.#owners;
    invariant(
      checkpoint !== undefined,
      `nobody has what is shared of ${block} [${range.join(', ')}), nor a checkpoint`,
    );
    const read = (kind: 'shared' | 'velocity' | 'value') => this.#parts.ways.read(checkpoint, block, kind, range);
    // Every island begins at what was published, which is saved as the value.
    const [shared, velocity, published] = await Promise.all([read('shared'), read('velocity'), read('value')]);
    return { block, range, shared, velocity, published };
  }

  /** To each receiver one piece after the other: all at once would lie here once more. */
  #sendOn(name: BlockName, { range }: OwnedRange, planes: OwnedPlanes, codes: PublishedCodes | null): void {
    const [first] = range;
    const wordsOf = ({ tensor, range: part }: OwnedPassage): Float32Array => {
      if (tensor.kind === 'shared')
        return planes[at(SHARED_KINDS, tensor.stage)].subarray(part[0] - first, part[1] - first);
      invariant(codes, 'what no step changed is not published');
      return codes.of(planeTensors(this.#parts.role.model, name, range, part));
    };
    const byReceiver = new Map<PeerId, OwnedPassage[]>();
    for (const passage of ownedOf(this.#from))
      if (passage.block === name && overlap(passage.range, range))
        byReceiver.set(passage.to, [...(byReceiver.get(passage.to) ?? []), passage]);
    for (const [to, own] of byReceiver) {
      const each = async (): Promise<void> => {
        for (const passage of own) await this.#parts.ways.send(to, this.#packets.keyOf(passage), wordsOf(passage));
      };
      this.#send(each());
    }
  }

  /** What this peer is to have, and did not work out. */
  async #receiveOwned(): Promise<Found[]> {
    const { peer } = this.#parts.role;
    const found: Found[] = [];
    for (const owned of this.#owners.ranges) {
      if (!owned.keep.includes(peer) || workersOf(owned).includes(peer)) continue;
      const planes = emptyPlanes(owned);
      await this.#receive(planes, () => true);
      found.push({ owned, planes });
    }
    return found;
  }

  /** What is sent of these planes, as floats. */
  async #receive(planes: PartialPlanes, isMeant: (passage: OwnedPassage) => boolean): Promise<void> {
    const takes = ownedOf(this.#to).map(async (passage) => {
      const isOfThese = passage.block === planes.block && overlap(passage.range, planes.range) !== null;
      if (passage.tensor.kind !== 'shared' || !isOfThese || !isMeant(passage)) return;
      const words = await this.#parts.ways.receive(this.#packets.keyOf(passage), passage.from);
      const kind = at(SHARED_KINDS, passage.tensor.stage);
      if (!isSound('f32', new Uint32Array(words.buffer)))
        throw bad(passage, `the ${kind} values`, 'one is no number, or past 2^50');
      planes[kind]?.set(words, passage.range[0] - planes.range[0]);
    });
    await Promise.all(takes);
  }

  /** What was published of a shard is added to what it begins the round with; what was worked out here is it. */
  async #publish({ work, planes: { published } }: Shard, worked: readonly Found[]): Promise<void> {
    const { block, range } = work;
    if (this.#hasSteps) for (const { planes } of worked) copyPart(planes, { block, range, published }, ['published']);
    const takes = ownedOf(this.#to).map(async (passage) => {
      if (passage.tensor.kind !== 'published' || passage.block !== block || !overlap(passage.range, range)) return;
      const words = await this.#parts.ways.receive(this.#packets.keyOf(passage), passage.from);
      const tensors = planeTensors(this.#parts.role.model, block, range, passage.range);
      if (!areSoundCodes(tensors, words)) throw bad(passage, 'what it publishes', 'a scale is no number, or past 2^50');
      for (const elements of addCodes(tensors, words, published)) await this.#packets.work.did(elements);
    });
    await Promise.all(takes);
  }

  /** What a checkpoint has of a shard beside, at who saves it. */
  async #saved({ block, range }: ShardWork, found: readonly Found[]): Promise<Pick<MetPlanes, 'shared' | 'velocity'>> {
    const { message, role } = this.#parts;
    const { savedBy = [] } = this.#owners;
    const state = savedBy.flatMap((place) => message.groups[place]?.state ?? []);
    if (!state.some(({ shards }) => shards.some((shard) => keepersOf(shard).includes(role.peer))))
      return { shared: null, velocity: null };
    const { shared, velocity } = emptyPlanes({ block, range });
    const saved = { block, range, shared, velocity };
    for (const { planes } of found) copyPart(planes, saved, ['shared', 'velocity']);
    const isFound = (of: OwnedPassage): boolean =>
      found.some(({ owned }) => owned.block === of.block && overlap(owned.range, of.range) !== null);
    await this.#receive(saved, (passage) => !isFound(passage));
    return { shared, velocity };
  }

  get #hasSteps(): boolean {
    return this.#parts.message.steps.some((own) => own > 0);
  }

  #send(sent: Promise<void>): void {
    sent.catch(() => undefined); // awaited at the end, unless what is received fails first
    this.#sends.push(sent);
  }
}

const changed = ({ published, islands }: OwnPlanes) => ({ published, shared: published, islands });

const packetsOf = (passages: readonly MeetingPassage[], name: BlockName): PacketPassage[] =>
  passages.flatMap((one) => (one.island !== null && one.block === name ? one : []));

const ownedOf = (passages: readonly MeetingPassage[]): OwnedPassage[] =>
  passages.flatMap((one) => (one.island === null ? one : []));

const bad = ({ from, block, range }: OwnedPassage, what: string, why: string): BadTensorError =>
  new BadTensorError(from, `${from} sent ${what} of ${block} [${range.join(', ')}): ${why}`);
