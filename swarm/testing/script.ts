/**
 * A rehearsal on a script: named donors, a clock that only moves when told, and a trace of effects as text, so that a
 * scenario reads as what was said and what was stored. Donors answer when `settle` lets them.
 */
import { given, invariant, type PeerId, peerId, type Range } from '../base.ts';
import type {
  CopyComparison,
  DonorMessage,
  Held,
  OperatorCommand,
  PlanAnswer,
  RelayedSlice,
  RelaySeen,
} from '../coordinator/events.ts';
import { snapshot } from '../coordinator/snapshot.ts';
import { NO_LIMITS } from '../limits.ts';
import { type ServerMessage, serverMessageSchema } from '../messages/messages.ts';
import { snapshotSchema } from '../messages/snapshot.ts';
import { peers } from '../plan/plan.ts';
import type { Planner, RehearsedEffect, RehearsedEvent } from './decider.ts';
import { answer } from './honestDonor.ts';
import { happen, type Rehearsal, rehearse, restart } from './rehearsal.ts';
import { ADAPTER, type RehearsalTerms, rehearsalTerms } from './rehearsalTerms.ts';

type Config = Parameters<typeof rehearsalTerms>[0];

export class Script {
  readonly run: Rehearsal;
  /** That comes with reports; undefined: none does. */
  chance: number | undefined;
  #now = 1_000;
  #told: Told[] = [];
  #effects: RehearsedEffect[] = [];
  #isWarmAtOnce = true;
  #comparisons: CopyComparison[] = [];

  constructor(part: Config, terms: RehearsalTerms = rehearsalTerms(part), planner?: Planner) {
    this.run = rehearse(terms, planner);
  }

  join(...names: string[]): void {
    for (const name of names) this.#happens(joined(name));
  }

  /** A tab that was here before the server began, without a part in the plan. */
  joinAgain(name: string): void {
    this.#happens({ ...joined(name), wasHere: true });
  }

  /** One who gives so much memory at most. */
  joinGiving(memoryBytes: number, name: string): void {
    this.#happens(joined(name, memoryBytes));
  }

  /** And nobody follows it. */
  gone(name: string): void {
    this.vanish(name);
    this.#now = this.run.state.departures?.untilMs ?? this.#now;
    if (this.run.state.departures !== null) this.tick();
  }

  /** Others may follow it. */
  vanish(name: string): void {
    this.#happens({ type: 'donorGone', peer: peerId(name), detail: 'its connection closed' });
  }

  say(name: string, message: DonorMessage): void {
    const chance = message.type === 'report' ? this.chance : undefined;
    this.#happens({ type: 'donorSaid', peer: peerId(name), message, ...given({ chance }) });
  }

  operator(command: OperatorCommand): void {
    this.#happens({ type: 'operatorSaid', command });
  }

  /** `earned`: by this donor alone, with each step that is given up. */
  sendBack(toStep: number, { name, tokens }: { readonly name: string; readonly tokens: number }): void {
    const steps = this.run.store.commits.slice(toStep);
    const earned = steps.map(({ step }) => ({ step, ledger: [{ peer: peerId(name), tokens }] }));
    const reason = `the operator sent the run back to checkpoint ${toStep}`;
    const lossScale = this.run.scales.get(toStep) ?? null;
    this.#happens({ type: 'sentBack', toStep, reason, lossScale, earned });
  }

  /** A frame from one to the other went through the server, and was not sound. */
  saw(from: string, to: string): void {
    const { epoch } = this.run.state;
    this.#happens({ type: 'unsoundRelayed', epoch, from: peerId(from), to: peerId(to) });
  }

  /** A slice from one to the other went through the server. */
  sawSlice(
    from: string,
    to: string,
    seen: Pick<RelayedSlice, 'step' | 'slice' | 'digest'> & { readonly squares?: number },
  ): void {
    const { epoch } = this.run.state;
    this.#happens({ type: 'sliceRelayed', epoch, from: peerId(from), to: peerId(to), squares: 0.25, ...seen });
  }

  /** What it says that went by between those whom it watches; each call with another `moved` means that something moves. */
  relaySaw(seen: Partial<RelaySeen>): void {
    this.#happens({ type: 'relaySaw', epoch: this.run.state.epoch, ...{ whole: [], full: [], moved: 0 }, ...seen });
  }

  /** What the server was asked to compare, in order: whether it is near. */
  compared(isNear: (asked: CopyComparison) => boolean): CopyComparison[] {
    const asked = this.#comparisons;
    this.#comparisons = [];
    for (const one of asked) {
      const { epoch, step, key, keeper } = one;
      this.#happens({ type: 'copyCompared', epoch, step, key, keeper, isNear: isNear(one) });
    }
    return asked;
  }

  /** All that it owes of an audit came. */
  evidenceIn(audit: number, name: string): void {
    this.#happens({ type: 'evidenceIn', audit, peer: peerId(name) });
  }

  audited(audit: number, found: Extract<RehearsedEvent, { type: 'audited' }>['found']): void {
    this.#happens({ type: 'audited', audit, found });
  }

  /** More of its part of a checkpoint came. */
  uploading(name: string): void {
    this.#happens({ type: 'uploading', peer: peerId(name) });
  }

  hold(held: Held): void {
    this.#happens({ type: 'stepsHeld', held });
  }

  gatheringEnded(): void {
    this.#happens({ type: 'gatheringEnded' });
  }

  /** What was asked for last, or, without a number, what nobody asked for. */
  answer(answer: PlanAnswer, ask: number | null = null): void {
    this.#happens({ type: 'planned', ask, answer });
  }

  now(): number {
    return this.#now;
  }

  /** The clock moves on. */
  pass(ms: number): void {
    this.#now += ms;
  }

  /** `deadlineReached`, whatever the time. */
  tick(): void {
    this.#happens({ type: 'deadlineReached' });
  }

  /** To the next deadline, which is then reached; looks that find nobody are passed. */
  expire(): void {
    for (let isLook = true; isLook; ) {
      const { phase: before } = this.run.state;
      this.#now = this.run.decider.deadline ?? this.#now;
      this.tick();
      const { phase } = this.run.state;
      const isSame = 'lookAt' in before && 'lookAt' in phase && before.startedAt === phase.startedAt;
      isLook = isSame && before.lookAt !== phase.lookAt;
    }
  }

  restart(): void {
    this.#told = [];
    restart(this.run);
  }

  /** Donors answer what they were told, first told first, but for what `withhold` names: `b report`, `a *`. */
  settle(...withhold: string[]): void {
    while (this.#answerFirst(withhold));
  }

  /** From now on `settle` answers `warm` too, which else every donor does at once and nobody sees. */
  warmUpSlowly(): void {
    this.#isWarmAtOnce = false;
  }

  /** Only what was told first, and is not withheld, is answered. */
  settleOne(...withhold: string[]): void {
    invariant(this.#answerFirst(withhold), 'there is something to answer');
  }

  peer(name: string): PeerId {
    return peerId(name);
  }

  /** What this donor is primary of. */
  shardsOf(name: string): { block: string; range: Range }[] {
    return (this.run.store.plan?.state ?? []).flatMap(({ block, shards }) =>
      shards.flatMap(({ peer, range }) => (peer === name ? { block, range } : [])),
    );
  }

  /** How often a new snapshot was announced since the last call. */
  published(): number {
    const count = this.#effects.filter(({ type }) => type === 'publish').length;
    this.#effects = this.#effects.filter(({ type }) => type !== 'publish');
    return count;
  }

  /** What was told and stored since the last call. */
  trace(): string[] {
    return merge(this.#since(effectText));
  }

  /** What was logged since the last call of either. */
  logs(): string[] {
    return this.#since((effect) => (effect.type === 'log' ? effect.text : null));
  }

  #since(textOf: (effect: RehearsedEffect) => string | null): string[] {
    const texts = this.#effects.flatMap((effect) => textOf(effect) ?? []);
    this.#effects = [];
    return texts;
  }

  #happens(event: RehearsedEvent): void {
    const warm: Told[] = [];
    for (const effect of happen(this.run, event, this.#now)) {
      const isWarm = this.#isWarmAtOnce && effect.type === 'send' && effect.message.type === 'warm';
      if (!isWarm) this.#effects.push(effect);
      if (effect.type === 'compareCopy') this.#comparisons.push(effect);
      if (effect.type !== 'send') continue;
      (isWarm ? warm : this.#told).push(effect);
      serverMessageSchema.parse(JSON.parse(JSON.stringify(effect.message)));
    }
    snapshotSchema.parse(snapshot(this.run.state, this.#now));
    for (const { to, message } of warm)
      if (message.type === 'warm') this.say(to, { type: 'warmed', number: message.number });
  }

  /** Whether a donor had something to answer. */
  #answerFirst(withhold: readonly string[]): boolean {
    const { plan } = this.run.store;
    const replyTo = ({ to, message }: Told) =>
      plan && this.run.connected.has(to) ? answer(this.run.config, to, plan, message) : null;
    this.#told = this.#told.filter((one) => replyTo(one) !== null);
    const isHeld = (to: PeerId, { type }: DonorMessage): boolean =>
      withhold.includes(`${to} ${type}`) || withhold.includes(`* ${type}`);
    const index = this.#told.findIndex((one) => !isHeld(one.to, replyTo(one) ?? { type: 'leave' }));
    const [chosen] = index < 0 ? [] : this.#told.splice(index, 1);
    const reply = chosen && replyTo(chosen);
    if (chosen === undefined || !reply) return false;
    this.say(chosen.to, reply);
    return true;
  }
}

export const script = (...told: ConstructorParameters<typeof Script>): Script => new Script(...told);

interface Told {
  readonly to: PeerId;
  readonly message: ServerMessage;
}

/** Its network is what its name has before a dot. */
const joined = (name: string, memoryBytes: number | null = null): Extract<RehearsedEvent, { type: 'donorJoined' }> => ({
  ...{ type: 'donorJoined', peer: peerId(name), adapter: ADAPTER, limits: { ...NO_LIMITS, memoryBytes } },
  ...{ profile: null, rememberedAs: null, remembered: null, address: name.split('.')[0] ?? name, isOwn: false },
});

/** `a b < start e1 step 0`: the same message to several donors in a row is one line. */
function merge(lines: readonly string[]): string[] {
  const merged: string[] = [];
  for (const line of lines) {
    const [to, message] = line.split(' < ');
    const [before, same] = merged.at(-1)?.split(' < ') ?? [];
    if (message !== undefined && message === same) merged[merged.length - 1] = `${before} ${to} < ${message}`;
    else merged.push(line);
  }
  return merged;
}

function effectText(effect: RehearsedEffect): string | null {
  switch (effect.type) {
    case 'send':
      return `${effect.to} < ${messageText(effect.message)}`;
    case 'storeCommit':
      return `commit ${effect.record.step}`;
    case 'storeEvaluation':
      return `evaluation ${effect.committedSteps}`;
    case 'storeCheckpoint':
      return `checkpoint ${effect.step}`;
    case 'rollBack':
      return `roll back ${effect.atStep} to ${effect.toStep}: ${effect.reason}`;
    case 'storeEpoch':
      return `epoch ${effect.epoch} ${peers(effect.plan).join(' ')}: ${effect.reason}`;
    case 'storePaused':
      return `paused ${effect.paused}`;
    case 'refuse':
      return `refuse ${effect.peer} ${effect.reason}${effect.isProven ? ' (proven)' : ''}`;
    case 'audit':
      return `audit ${effect.audit} of ${effect.peer} at stage ${effect.stage}`;
    case 'convicted':
      return `convicted ${effect.peer}, from step ${effect.firstStep}`;
    case 'planWanted':
      return `plan wanted ${effect.purpose}: ${effect.offer.map(({ peer }) => peer).join(' ')}`;
    case 'publish':
    case 'log':
    case 'offerChanged':
      return null;
    default:
      return effect.type;
  }
}

const SOURCES = { checkpoint: 'loaded', kept: 'kept', peers: 'handed over' } as const;

function messageText(message: ServerMessage): string {
  switch (message.type) {
    case 'prepare':
      return `prepare e${message.epoch} step ${message.step} ${SOURCES[message.source.from]}`;
    case 'committed':
      return `committed e${message.epoch} step ${message.step}${message.checkpoint ? ' checkpoint' : ''}`;
    case 'start':
    case 'evaluate':
    case 'save':
      return `${message.type} e${message.epoch} step ${message.step}`;
    case 'abandon':
      return `abandon e${message.epoch}`;
    case 'standby':
      return `standby ${message.state}`;
    default:
      return message.type;
  }
}
