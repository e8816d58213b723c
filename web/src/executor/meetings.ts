/**
 * The meetings of a session: at most one attempt at a time, what came of the newest until it is over, and the packets that
 * others send for it. What fails of an attempt ends that attempt alone, and is told of once: the server begins another.
 */
import { invariant, type PeerId } from '../../../swarm/base.ts';
import { codeWords } from '../../../swarm/islands/codes.ts';
import { roundEnd, roundLength } from '../../../swarm/islands/rounds.ts';
import { encodeTensor, type TensorKey, tensorBytes } from '../../../swarm/messages/frame.ts';
import { NO_EPOCH } from '../../../swarm/messages/meetingWords.ts';
import type { MeetMessage, ServerMessage } from '../../../swarm/messages/messages.ts';
import type { LinkReport } from '../../../swarm/messages/profile.ts';
import { tensorParts } from '../../../swarm/model/layout.ts';
import type { Model } from '../../../swarm/model/model.ts';
import { peers } from '../../../swarm/plan/plan.ts';
import { FLOAT_BYTES, SHARED_KINDS } from '../../../swarm/plan/stateKinds.ts';
import { type MeetingPassage, meetingPassages, passagesOf } from '../../../swarm/ways/meeting.ts';
import { type Partners, partnersIn } from '../../../swarm/ways/partners.ts';
import { bytesOf } from '../../../swarm/ways/tensors.ts';
import { type Epochs, faultOf } from './epochs.ts';
import type { Holding } from './holding.ts';
import { Inbox } from './inbox.ts';
import type { MeetingParts } from './islandPackets.ts';
import type { IslandShards, RoundEnds } from './islandShards.ts';
import type { JoinedRun } from './joinedRun.ts';
import { Meeting, type Outcome } from './meeting.ts';
import type { Meter } from './meter.ts';
import type { Neighbours } from './neighbours.ts';
import { OwnedMeeting } from './ownedMeeting.ts';
import { OwnedStore } from './ownedStore.ts';
import type { Role } from './role.ts';
import { sendFrames } from './sendFrames.ts';
import type { SessionParts } from './sessionParts.ts';
import type { Traffic } from './traffic.ts';
import { gatherValues, holderParts, sendValues } from './values.ts';

type Message<T extends ServerMessage['type']> = Extract<ServerMessage, { type: T }>;

interface Parts {
  readonly page: Pick<SessionParts['page'], 'sendServer'>;
  readonly ways: Pick<SessionParts['ways'], 'sendFrame'>;
  readonly epochs: Epochs;
  readonly holding: Holding;
  readonly neighbours: Neighbours;
  readonly traffic: Traffic;
  readonly meter: Meter;
  run(): JoinedRun | null;
  /** The ways to the others now. */
  links(): readonly LinkReport[];
  bar(from: PeerId): void;
  /** A group's own tensors: the values that a meeting left go to who computes with them. */
  send(signal: AbortSignal, to: PeerId, key: TensorKey, values: Float32Array): Promise<void>;
  receive(signal: AbortSignal, key: TensorKey, from: PeerId): Promise<Float32Array<ArrayBuffer>>;
  /** From now on this step's tensors count. */
  advance(epoch: number, step: number): void;
}

/** Of whom a donor speaks. */
const MOST_LACKED = 16;

interface Attempt {
  readonly message: MeetMessage;
  readonly abort: AbortController;
  /** Of islands that did anything. */
  readonly passages: readonly MeetingPassage[];
  readonly partners: Partners;
  outcome: Outcome | null;
  /** Whose tensors it waits for, each by as many as they are. */
  readonly lacks: { readonly tensor: TensorKey; readonly from: PeerId }[];
}

export class Meetings {
  readonly #parts: Parts;
  #packets: Inbox;
  #attempt: Attempt | null = null;
  /** The round whose meeting is over here. */
  #overRound: number | null = null;
  /** Of the round that is met about beside the next one's steps: which it is, and when they are read what islands ended it with. */
  #besideRound: number | null = null;
  #ended: { readonly round: number; readonly ends: RoundEnds } | null = null;
  /** What this donor owns, under whatever plan; of this name, and since the run last went back. */
  readonly #owned = new OwnedStore();
  #ownedSince = '';

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#packets = new Inbox(parts.bar);
  }

  /** Of a new plan: nothing of an attempt before is of use. What this donor owns is, unless the run goes back. */
  prepare(
    { peer, model, sizes }: JoinedRun,
    { plan, generation }: Pick<Message<'prepare'>, 'plan' | 'generation'>,
  ): void {
    this.drop();
    this.#overRound = null;
    this.#ended = null;
    this.#besideRound = null;
    this.#packets = new Inbox(this.#parts.bar);
    this.#ownSince(peer, generation);
    const { islands } = sizes;
    const { islands: own, state, owned } = plan;
    if (!islands || !own) return;
    const packets = meetingPassages(model, islands, [{ islands: own, state }]);
    this.#packets.warm(owned ? ofOwners(model, peers(plan)) : bytesTo(peer, packets));
  }

  /** What was owned under another name, or before the run went back, is nothing any more. */
  #ownSince(peer: PeerId, generation = 0): void {
    if (this.#ownedSince !== `${peer} ${generation}`) this.#owned.become([]);
    this.#ownedSince = `${peer} ${generation}`;
  }

  /** This donor is in no plan: an attempt under one is of no use. A spare one may own something, and hold another attempt. */
  leave(isSpare: boolean): void {
    if (!isSpare) this.#owned.become([]);
    if (!isSpare || this.#attempt?.message.epoch !== NO_EPOCH) this.drop();
  }

  /** The epoch is given up, and with it an attempt, unless that is beside its steps: then it is about what was before them. */
  abandon(): void {
    if (!this.#attempt?.message.beside) this.drop();
  }

  /** What there is of an attempt is given up. */
  drop(): void {
    this.#attempt?.abort.abort(new Error('the meeting was given up'));
    this.#attempt = null;
  }

  /** The server is another: it counts attempts anew. What came of the newest may still be made the state. */
  restart(): void {
    this.#packets = new Inbox(this.#parts.bar);
  }

  /** That server says that so many steps stand since the groups met: it may have been over before it was told here. */
  stoodAt(step: number | undefined, generation: number): void {
    const { holding } = this.#parts;
    const train = this.#parts.run()?.facts.train;
    const keeps = holding.role?.kept.length !== 0;
    const round = this.#attempt?.outcome ? this.#attempt.message.round : null;
    if (step === undefined || !train || !holding.role || holding.hasMet(step)) return;
    // What was done since went on beside that meeting: the server goes back.
    if (train.islands?.overlap) return;
    if (generation !== holding.generation) return;
    if (
      keeps &&
      (round === null || (this.#attempt?.message.end ?? roundEnd(train, round * roundLength(train))) !== step)
    )
      return;
    this.#take(step);
  }

  accept(from: PeerId, frame: ArrayBuffer): void {
    this.#packets.accept(from, frame);
  }

  get droppedFrames(): number {
    return this.#packets.droppedFrames;
  }

  /** A link to somebody whose packets are awaited, or who awaits them; what a step lost by it is told of elsewhere. */
  linkLost(peer: PeerId): void {
    const attempt = this.#attempt;
    const me = this.#parts.run()?.peer;
    if (!attempt || attempt.outcome || !me || !attempt.partners.get(me)?.has(peer)) return;
    this.#fail(attempt, ['linkLost', 'it closed', peer]);
  }

  meet(message: MeetMessage): void {
    if (this.#attempt) this.#tellLacks(this.#attempt, message);
    this.drop();
    const run = this.#parts.run();
    const islands = run?.sizes.islands;
    const isIdle = message.epoch === NO_EPOCH;
    if (!run || !islands || (!isIdle && this.#parts.epochs.current?.number !== message.epoch)) return;
    if (isIdle) this.#ownSince(run.peer, message.owners?.generation);
    const all = meetingPassages(run.model, islands, message.groups, message.owners);
    const passages = passagesOf(all, message.steps);
    const partners = partnersIn(all);
    const attempt: Attempt = { message, passages, partners, abort: new AbortController(), outcome: null, lacks: [] };
    this.#attempt = attempt;
    if (message.beside && !isIdle) this.#endRound(message, run);
    const step = passages.filter(({ to }) => to === run.peer);
    const others = [...(partners.get(run.peer) ?? [])];
    const earlyBytes = message.owners ? ofOwners(run.model, others) : bytesTo(run.peer, all);
    const coming = { arrival: [], step, late: [], heldOut: [], earlyBytes };
    this.#packets.expect(message.attempt, 0, coming, 0, () => []);
    this.#packets.advance(message.attempt, 0);
    if (isIdle) void this.#hold(attempt.abort.signal, attempt, run, new Map());
    else if (message.beside) this.#holdBeside(attempt, run);
    else this.#holdAlone(attempt, run);
  }

  #holdAlone(attempt: Attempt, run: JoinedRun): void {
    this.#parts.epochs.enqueue(attempt.message.epoch, async ({ abort: { signal } }) => {
      this.#parts.meter.show({ activity: 'updating' });
      const ends = await this.#shards.roundEnds();
      return this.#hold(AbortSignal.any([signal, attempt.abort.signal]), attempt, run, ends);
    });
  }

  /** Beside the steps, and whatever becomes of the epoch: it is about what islands came to before them. */
  #holdBeside(attempt: Attempt, run: JoinedRun): void {
    const { round } = attempt.message;
    this.#parts.epochs.enqueueAlways(async () => {
      // An attempt that is begun again later is about the same.
      if (this.#ended?.round !== round) this.#ended = { round, ends: await this.#shards.roundEnds() };
      void this.#hold(attempt.abort.signal, attempt, run, this.#ended.ends); // what fails of it is told there
    });
  }

  get #shards(): IslandShards {
    const { islands } = this.#parts.holding.role ?? {};
    invariant(islands, 'a meeting came before a plan of islands');
    return islands;
  }

  /** The next round begins; once, however often the meeting is begun again. */
  #endRound({ round, end }: MeetMessage, { facts: { train } }: JoinedRun): void {
    if (this.#besideRound === round) return;
    this.#besideRound = round;
    this.#parts.holding.roundEnded(end ?? roundEnd(train, round * roundLength(train)));
  }

  async #hold(signal: AbortSignal, attempt: Attempt, run: JoinedRun, ends: RoundEnds): Promise<void> {
    const { holding, neighbours, page, meter, traffic, ways } = this.#parts;
    const { islands } = run.sizes;
    const { message, passages, partners } = attempt;
    const role = message.epoch === NO_EPOCH ? null : holding.role;
    invariant(islands && (role?.islands || message.epoch === NO_EPOCH), 'a meeting came before a plan of islands');
    if (signal.aborted) return;
    try {
      const greatest = message.groups.reduce((most, group) => Math.max(most, group.epoch), message.epoch);
      await neighbours.meet(run.peer, partners, greatest, message.relayed ?? [], signal);
      const { owners } = message;
      const parts: MeetingParts = {
        role: role ?? { model: run.model, peer: run.peer, kept: [], plan: { islands: [] } },
        ...{ shards: role?.islands ?? null, settings: islands, message, passages, ends },
        ways: {
          send: (to, key, words) => sendFrames(to, encodeTensor(key, words), { traffic, meter, ways }, signal),
          receive: (key, from) => meter.awaited(from, this.#receive(attempt, key, from, signal)),
          read: (...part) => run.files.state(...part),
        },
      };
      const meeting = owners ? new OwnedMeeting(parts, owners, this.#owned) : new Meeting(parts);
      const { outcome, said } = await (message.beside ? meeting.hold() : meter.meeting(run.peer, meeting.hold()));
      signal.throwIfAborted();
      attempt.outcome = outcome;
      const { epoch, round, attempt: number } = message;
      page.sendServer({
        ...{ type: 'met', epoch, round, attempt: number, ...said },
        ...this.#bytes(run.peer, role, passages),
      });
    } catch (error) {
      if (!signal.aborted) this.#fail(attempt, faultOf(error));
    }
  }

  async #receive({ lacks }: Attempt, tensor: TensorKey, from: PeerId, signal: AbortSignal) {
    const lacked = { tensor, from };
    lacks.push(lacked);
    const words = await this.#packets.receive(tensor, from, signal);
    lacks.splice(lacks.indexOf(lacked), 1);
    return words;
  }

  /** It waited for others here: whose packets had not come, or else what they publish. */
  #tellLacks({ abort, outcome, lacks, message }: Attempt, { wasLate }: MeetMessage): void {
    if (abort.signal.aborted || outcome || !wasLate) return;
    const packets = lacks.filter(({ tensor }) => tensor.kind === 'packet');
    const [reason, of] = packets.length > 0 ? (['noPacket', packets] as const) : (['notPublished', lacks] as const);
    for (const peer of [...new Set(of.map(({ from }) => from))].slice(0, MOST_LACKED))
      this.#parts.epochs.tell(message, [reason, 'not all of it came', peer]);
  }

  /** Once, and not of one that was given up. */
  #fail({ abort, message }: Attempt, fault: ReturnType<typeof faultOf>): void {
    if (abort.signal.aborted) return;
    abort.abort(new Error('the meeting failed here'));
    this.#parts.epochs.tell(message, fault);
  }

  /** Of the packets of this peer, and of the values that it sends when the meeting is over. */
  #bytes(me: PeerId, role: Role | null, passages: readonly MeetingPassage[]) {
    const sum = { bytesDirect: 0, bytesRelayed: 0 };
    const links = this.#parts.links();
    const count = (to: PeerId, bytes: number): void => {
      const route = links.find(({ peer }) => peer === to)?.route ?? 'direct';
      sum[route === 'direct' ? 'bytesDirect' : 'bytesRelayed'] += bytes;
    };
    for (const passage of passages) if (passage.from === me) count(passage.to, bytesOf(passage));
    for (const { to, tensor } of role ? holderParts(role, true) : []) if (to !== me) count(to, tensorBytes(tensor));
    return sum;
  }

  /** What came of the attempt becomes the state after so many steps. */
  #take(step: number): void {
    const { epochs, holding } = this.#parts;
    const outcome = this.#attempt?.outcome;
    this.#attempt = null;
    this.#owned.become(outcome?.owned ?? []);
    // Who keeps anything has all of its steps behind it: it has said what came of them.
    if (outcome || holding.role?.kept.length === 0) holding.met(step);
    epochs.enqueueAlways(async () => {
      const { role } = holding;
      if (!role || role.kept.length === 0) return;
      invariant(outcome && role.islands, `what came of the meeting before step ${step} is not here`);
      role.islands.takeMeeting(outcome.shards);
    });
  }

  /** What came of the attempt is taken in between two steps, also where the epoch has been given up since they ended the round. */
  #takeIn(): void {
    const { epochs, holding } = this.#parts;
    const outcome = this.#attempt?.outcome;
    this.#attempt = null;
    this.#owned.become(outcome?.owned ?? []);
    epochs.enqueueAlways(async () => {
      const { role } = holding;
      if (!role || role.kept.length === 0) return;
      invariant(outcome && role.islands, 'what came of the meeting is not here');
      await role.islands.takeIn(outcome.shards);
      this.#ended = null;
    });
  }

  /** Of who is in no plan. */
  #ownsOver(round: number): void {
    if (this.#attempt?.message.round !== round || !this.#attempt.outcome) return;
    this.#owned.become(this.#attempt.outcome.owned);
    this.#attempt = null;
  }

  /** What came of this round's meeting is the state, whatever becomes of the epoch (CO22); once. */
  over({ epoch: number, round, end, beside }: Message<'meetingOver'>): void {
    const { epochs, holding, send, receive, advance } = this.#parts;
    const run = this.#parts.run();
    if (number === NO_EPOCH) this.#ownsOver(round);
    if (!run || epochs.current?.number !== number || this.#overRound === round) return;
    const { train } = run.facts;
    const step = end ?? roundEnd(train, round * roundLength(train));
    if (this.#attempt?.message.round !== round) this.#attempt = null;
    this.#overRound = round;
    if (beside) this.#takeIn();
    else this.#take(step);
    epochs.enqueue(number, async ({ abort: { signal } }) => {
      const { role } = holding;
      if (!role) return;
      advance(number, step);
      role.leftOver.drop();
      const sends: Promise<void>[] = [];
      await sendValues(
        role,
        step,
        (to, key, reading) => {
          const sent = reading.take((values) => send(signal, to, key, values));
          sent.catch(() => undefined); // awaited below, unless what is gathered fails first
          sends.push(sent);
        },
        true,
      );
      const take = (key: TensorKey, from: PeerId) => receive(signal, key, from);
      for (const stage of role.plan.stages.keys()) await gatherValues(role, stage, step, take, true);
      await Promise.all(sends);
      if (!beside) holding.gathered(step);
      this.#parts.meter.show({ activity: 'waiting' });
    });
  }
}

/** From each sender. */
function bytesTo(me: PeerId, passages: readonly MeetingPassage[]): ReadonlyMap<PeerId, number> {
  const sums = new Map<PeerId, number>();
  for (const passage of passages)
    if (passage.to === me) sums.set(passage.from, (sums.get(passage.from) ?? 0) + bytesOf(passage));
  return sums;
}

/** Who owns what at the next meeting is not known before its word is here: each may send a share of anything, or all of it. */
function ofOwners(model: Model, all: readonly PeerId[]): ReadonlyMap<PeerId, number> {
  const bytes = model.blocks.map((own) => {
    const codes = codeWords(tensorParts(own, [0, own.elements]));
    return FLOAT_BYTES * (codes + SHARED_KINDS.length * own.elements);
  });
  const sum = bytes.reduce((so, one) => so + one, 0);
  return new Map(all.map((peer) => [peer, sum]));
}
