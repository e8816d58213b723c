/**
 * Which donors may reach each other at this moment, and how much of what they send the server still carries: what the plan
 * in force (or a change of plan, or a measurement that was asked for) makes one send to the other, and no more. It follows
 * what the server tells the donors; nobody's word changes it. Rules WP in SPEC.md.
 */
import type { PeerId } from '../../swarm/base.ts';
import { framedBytes, type TensorKey } from '../../swarm/messages/frame.ts';
import type { ServerMessage } from '../../swarm/messages/messages.ts';
import { meetingPassages } from '../../swarm/ways/meeting.ts';
import { arrivalTensors, latePassages, type Partners, planPartners, type Sizes } from '../../swarm/ways/partners.ts';
import type { Passage } from '../../swarm/ways/passage.ts';
import { heldOutTensors, stepTensors } from '../../swarm/ways/tensors.ts';
import { passageText } from '../../swarm/ways/wentBy.ts';
import { Allowance, type Grant } from './allowance.ts';

type Said<Type extends ServerMessage['type']> = Extract<ServerMessage, { type: Type }>;

/** Of a run: the rounds of an evaluation count too. */
export interface RunSizes extends Sizes {
  readonly rounds: number;
}

/** As long as a link that was asked for lives at most, and some more. */
const PROBE_MS = 90_000;
/**
 * Signals of one donor to another at once, and how fast it earns new ones: an attempt at a link takes some fifty. A long one
 * counts as one more for each such length that it has.
 */
const SIGNAL_BURST = 256;
const SIGNALS_PER_SECOND = 8;
const COUNTED_LENGTH = 1_024;

/** From one donor to another. */
interface Way {
  /** In a step, in an evaluation. */
  stepBytes: number;
  evaluationBytes: number;
  /** What the server may still carry. */
  left: Allowance;
}

type Ways = Map<PeerId, Map<PeerId, Way>>;

/** What a meeting that is under way has donors send each other, in whichever group: worked out once for all of them. */
export class MeetingWays {
  readonly #sizes: Pick<RunSizes, 'model' | 'islands'>;
  #attempt = -1;
  ways: Ways = new Map();

  constructor(sizes: Pick<RunSizes, 'model' | 'islands'>) {
    this.#sizes = sizes;
  }

  /** Each attempt may be sent whole, and what an earlier one did not use is not added to it. */
  begin({ attempt, groups, owners }: Said<'meet'>): void {
    const { model, islands } = this.#sizes;
    if (this.#attempt === attempt || !islands) return;
    this.#attempt = attempt;
    this.ways = new Map();
    add(this.ways, meetingPassages(model, islands, groups, owners), (way, bytes) => way.left.grow(bytes));
  }
}

export class Pairs {
  readonly #sizes: RunSizes;
  #ways: Ways = new Map();
  /** What was told of last, so that one word to many donors counts once. */
  #prepared: Said<'prepare'> | null = null;
  #told = '';
  /** Of the plan that was told of last: the step begun last, null before the first, and the names of what it sends. */
  #startedStep: number | null = null;
  #tensors: ReadonlySet<string> | null = null;
  /** Of the plan that its members get ready for beside the one in force: they open links, and send nothing yet. */
  #ahead: { readonly number: number; readonly partners: Partners } | null = null;
  /** Of the meeting that was begun last: also with members of other groups. */
  readonly #meeting: MeetingWays;
  readonly #probes = new Map<string, number>();
  readonly #signals = new Map<string, { allowance: number; atMs: number }>();

  constructor(sizes: RunSizes, meeting = new MeetingWays(sizes)) {
    this.#sizes = sizes;
    this.#meeting = meeting;
  }

  /** What the server tells a donor, before it is sent. */
  told(to: PeerId, message: ServerMessage, nowMs: number): void {
    if (message.type === 'prepare') this.#prepare(message);
    else if (message.type === 'warm') this.#ahead = this.#aheadOf(message);
    else if (message.type === 'start' || message.type === 'evaluate') this.#begin(message);
    else if (message.type === 'meet') this.#meeting.begin(message);
    else if (message.type === 'meetingOver') this.#metOver(message);
    else if (message.type === 'answer') this.#answers(to, message);
    else if (message.type === 'probe') this.#probes.set(nameOf(to, message.peer), nowMs + PROBE_MS);
    else if (message.type === 'standby' && message.state !== 'finished') this.#leave(to, message.state === 'spare');
  }

  /** The stream of a piece, whose bytes no step has. */
  #answers(from: PeerId, { to, parts }: Said<'answer'>): void {
    const rows = parts.reduce((sum, part) => sum + part.rows, 0);
    if (to !== null) this.#between(from, to)[0]?.left.grow(framedBytes({ range: [0, rows * this.#sizes.model.width] }));
  }

  /** It is not a part of anything any more. */
  gone(peer: PeerId): void {
    this.#leave(peer, false);
  }

  /** A spare one may own something, and meet others. */
  #leave(peer: PeerId, isSpare: boolean): void {
    for (const ways of isSpare ? [this.#ways] : [this.#ways, this.#meeting.ways]) {
      ways.delete(peer);
      for (const others of ways.values()) others.delete(peer);
    }
    for (const of of [this.#probes, this.#signals])
      for (const name of of.keys()) if (name.split(' ').includes(peer)) of.delete(name);
  }

  /** Whom a donor exchanges tensors with. */
  partners(peer: PeerId): PeerId[] {
    return [...(this.#ways.get(peer)?.keys() ?? [])];
  }

  /** Those, and whom it meets. */
  reached(peer: PeerId): PeerId[] {
    return [...new Set([...this.partners(peer), ...(this.#meeting.ways.get(peer)?.keys() ?? [])])];
  }

  isPair(from: PeerId, to: PeerId): boolean {
    const isAhead = this.#ahead?.partners.get(from)?.has(to) ?? false;
    return isAhead || [this.#ways, this.#meeting.ways].some((ways) => ways.get(from)?.has(to));
  }

  maySignal(from: PeerId, to: PeerId, length: number, nowMs: number): boolean {
    const isProbed = [nameOf(from, to), nameOf(to, from)].some((name) => (this.#probes.get(name) ?? 0) > nowMs);
    if (!this.isPair(from, to) && !isProbed) return false;
    const name = nameOf(from, to);
    const { allowance, atMs } = this.#signals.get(name) ?? { allowance: SIGNAL_BURST, atMs: nowMs };
    const earned = Math.min(SIGNAL_BURST, allowance + ((nowMs - atMs) / 1_000) * SIGNALS_PER_SECOND);
    const cost = 1 + Math.floor(length / COUNTED_LENGTH);
    this.#signals.set(name, { allowance: earned < cost ? earned : earned - cost, atMs: nowMs });
    return earned >= cost;
  }

  /** Whether the server carries this frame: then its bytes are taken off what it still would. */
  take(from: PeerId, to: PeerId, bytes: number): boolean {
    return this.#between(from, to).some(({ left }) => left.take(bytes));
  }

  /** Gateways carried so much past the server. */
  spent(from: PeerId, to: PeerId, bytes: number): void {
    this.#between(from, to)[0]?.left.spent(bytes);
  }

  /** For a gateway that is to carry frames from the one to the other: what it may, beside what it was told before. Null: nothing. */
  handOn(from: PeerId, to: PeerId): Grant | null {
    const [first, ...others] = this.#between(from, to).map(({ left }) => left.handOn());
    return first === undefined ? null : { ...first, more: others.reduce((sum, { more }) => sum + more, first.more) };
  }

  #between(from: PeerId, to: PeerId): readonly Way[] {
    return [this.#ways, this.#meeting.ways].flatMap((all) => all.get(from)?.get(to) ?? []);
  }

  /**
   * Steps begun since this tensor's own; 'none': it is of what moves before the first. Null: nothing of that name is to go
   * from the one to the other, or its step was not begun.
   */
  stepsSince(from: PeerId, to: PeerId, key: TensorKey): number | 'none' | null {
    const [prepared, started] = [this.#prepared, this.#startedStep];
    if (prepared?.epoch !== key.epoch) return null;
    if (key.step < prepared.step || key.step > (started ?? prepared.step)) return null;
    // Only where a pair is watched.
    this.#tensors ??= new Set(
      this.#sent(prepared, started === null).map((one) => passageText(0, one.from, one.to, one.tensor)),
    );
    if (!this.#tensors.has(passageText(0, from, to, key))) return null;
    return started === null ? 'none' : started - key.step;
  }

  #sent({ plan, source }: Said<'prepare'>, isArriving: boolean): readonly Passage[] {
    return isArriving ? arrivalTensors(this.#sizes, plan, source) : stepTensors(this.#sizes.model, plan, this.#sizes);
  }

  #prepare(message: Said<'prepare'>): void {
    if (this.#prepared?.epoch === message.epoch) return;
    const { plan, source } = message;
    this.#prepared = message;
    this.#startedStep = null;
    this.#tensors = null;
    if (source.from !== 'kept') this.#ahead = null;
    const before = this.#ways;
    const own = this.#waysOf(plan);
    const handingOver = source.from === 'peers' ? this.#waysOf(source.plan) : new Map();
    // Until its first step the plan before still completes its own.
    for (const [from, others] of handingOver)
      for (const [to, { stepBytes }] of others) {
        const way = wayOf(own, from, to);
        way.stepBytes = Math.max(way.stepBytes, stepBytes);
      }
    // What is still on its way arrives.
    for (const [from, others] of own) for (const [to, way] of others) keepLeft(way, before.get(from)?.get(to));
    add(own, arrivalTensors(this.#sizes, plan, source), (way, bytes) => way.left.grow(bytes));
    this.#ways = own;
    for (const name of this.#signals.keys()) {
      const [from, to] = name.split(' ') as [PeerId, PeerId];
      if (!this.isPair(from, to)) this.#signals.delete(name);
    }
  }

  #aheadOf({ number, plan }: Said<'warm'>) {
    if (this.#ahead?.number === number) return this.#ahead;
    return { number, partners: planPartners(this.#sizes, plan) };
  }

  /** At the first one the plan before is over. */
  #begin(message: Said<'start' | 'evaluate'>): void {
    const { type, epoch, step } = message;
    const told = `${type} ${epoch} ${step}`;
    if (this.#prepared?.epoch !== epoch || this.#told === told) return;
    const isFirst = !this.#told.includes(` ${epoch} `);
    this.#told = told;
    if (type === 'start') {
      if (this.#startedStep === null) this.#tensors = null;
      this.#startedStep = step;
    }
    const before = this.#ways;
    if (isFirst) this.#ways = this.#waysOf(this.#prepared.plan);
    for (const [from, others] of this.#ways)
      for (const [to, way] of others) {
        keepLeft(way, before.get(from)?.get(to));
        way.left.grow(type === 'start' ? way.stepBytes : way.evaluationBytes);
      }
    if (message.type !== 'start' || !message.copies) return;
    add(this.#ways, latePassages(this.#sizes, this.#prepared).slice(...message.copies), (way, bytes) =>
      way.left.grow(bytes),
    );
  }

  /** Values go to who computes with them, as after a step. */
  #metOver({ epoch, round }: Said<'meetingOver'>): void {
    const told = `meetingOver ${epoch} ${round}`;
    if (this.#prepared?.epoch !== epoch || this.#told === told) return;
    this.#told = told;
    for (const others of this.#ways.values()) for (const way of others.values()) way.left.grow(way.stepBytes);
  }

  #waysOf(plan: Said<'prepare'>['plan']): Ways {
    const { model, rounds } = this.#sizes;
    const ways: Ways = new Map();
    add(ways, stepTensors(model, plan, this.#sizes), (way, bytes) => {
      way.stepBytes += bytes;
    });
    add(ways, heldOutTensors(model, plan, this.#sizes), (way, bytes) => {
      way.evaluationBytes += rounds * bytes;
    });
    return ways;
  }
}

const nameOf = (from: PeerId, to: PeerId): string => `${from} ${to}`;

/** Of what was not sent yet of the way before, as much as a step's may still come. */
function keepLeft(way: Way, before: Way | undefined): void {
  way.left = before?.left ?? way.left;
  way.left.cutTo(before?.stepBytes ?? 0);
}

function wayOf(ways: Ways, from: PeerId, to: PeerId): Way {
  const others = ways.get(from) ?? new Map<PeerId, Way>();
  ways.set(from, others);
  const way = others.get(to) ?? { stepBytes: 0, evaluationBytes: 0, left: new Allowance() };
  others.set(to, way);
  return way;
}

/** A pair is one both ways, whoever sends. */
function add(ways: Ways, list: readonly Passage[], count: (way: Way, bytes: number) => void) {
  for (const { from, to, tensor } of list) {
    count(wayOf(ways, from, to), framedBytes(tensor));
    wayOf(ways, to, from);
  }
}
