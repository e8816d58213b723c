/**
 * A rehearsal on a script: named donors, a clock that only moves when told, and a trace of effects as text, so that a
 * scenario reads as what was said and what was stored. Donors answer when `settle` lets them.
 */
import { invariant, type PeerId, peerId, type Range } from '../base.ts';
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

export interface Script {
  readonly run: Rehearsal;
  join(...names: string[]): void;
  /** A tab that was here before the server began, without a part in the plan. */
  joinAgain(name: string): void;
  /** One who gives so much memory at most. */
  joinGiving(memoryBytes: number, name: string): void;
  /** And nobody follows it. */
  gone(name: string): void;
  /** Others may follow it. */
  vanish(name: string): void;
  say(name: string, message: DonorMessage): void;
  operator(command: OperatorCommand): void;
  /** `earned`: by this donor alone, with each step that is given up. */
  sendBack(toStep: number, earned: { readonly name: string; readonly tokens: number }): void;
  /** A frame from one to the other went through the server, and was not sound. */
  saw(from: string, to: string): void;
  /** A slice from one to the other went through the server. */
  sawSlice(
    from: string,
    to: string,
    seen: Pick<RelayedSlice, 'step' | 'slice' | 'digest'> & { readonly squares?: number },
  ): void;
  /** What it says that went by between those whom it watches; each call with another `moved` means that something moves. */
  relaySaw(seen: Partial<RelaySeen>): void;
  /** What the server was asked to compare, in order: whether it is near. */
  compared(isNear: (asked: CopyComparison) => boolean): CopyComparison[];
  /** More of its part of a checkpoint came. */
  uploading(name: string): void;
  hold(held: Held): void;
  gatheringEnded(): void;
  /** What was asked for last, or, without a number, what nobody asked for. */
  answer(answer: PlanAnswer, ask?: number | null): void;
  now(): number;
  /** The clock moves on. */
  pass(ms: number): void;
  /** `deadlineReached`, whatever the time. */
  tick(): void;
  /** To the next deadline, which is then reached; looks that find nobody are passed. */
  expire(): void;
  restart(): void;
  /** Donors answer what they were told, first told first, but for what `withhold` names: `b report`, `a *`. */
  settle(...withhold: string[]): void;
  /** From now on `settle` answers `warm` too, which else every donor does at once and nobody sees. */
  warmUpSlowly(): void;
  /** Only what was told first, and is not withheld, is answered. */
  settleOne(...withhold: string[]): void;
  peer(name: string): PeerId;
  /** What this donor is primary of. */
  shardsOf(name: string): { block: string; range: Range }[];
  /** How often a new snapshot was announced since the last call. */
  published(): number;
  /** What was told and stored since the last call. */
  trace(): string[];
  /** What was logged since the last call of either. */
  logs(): string[];
}

export function script(part: Config, terms: RehearsalTerms = rehearsalTerms(part), planner?: Planner): Script {
  const run = rehearse(terms, planner);
  let now = 1_000;
  let told: { to: PeerId; message: ServerMessage }[] = [];
  let effects: RehearsedEffect[] = [];
  let isWarmAtOnce = true;
  let comparisons: CopyComparison[] = [];
  const event = (happened: RehearsedEvent) => {
    const warm: (typeof told)[number][] = [];
    for (const effect of happen(run, happened, now)) {
      const isWarm = isWarmAtOnce && effect.type === 'send' && effect.message.type === 'warm';
      if (!isWarm) effects.push(effect);
      if (effect.type === 'compareCopy') comparisons.push(effect);
      if (effect.type !== 'send') continue;
      (isWarm ? warm : told).push(effect);
      serverMessageSchema.parse(JSON.parse(JSON.stringify(effect.message)));
    }
    snapshotSchema.parse(snapshot(run.state, now));
    for (const { to, message } of warm)
      if (message.type === 'warm') say(to, { type: 'warmed', number: message.number });
  };
  const say = (name: string, message: DonorMessage) => event({ type: 'donorSaid', peer: peerId(name), message });
  const vanish = (name: string) => event({ type: 'donorGone', peer: peerId(name), detail: 'its connection closed' });
  const answerFirst = (may: (to: PeerId, reply: DonorMessage) => boolean): boolean => {
    const { plan } = run.store;
    const replyTo = ({ to, message }: (typeof told)[number]) =>
      plan && run.connected.has(to) ? answer(run.config, to, plan, message) : null;
    told = told.filter((one) => replyTo(one) !== null);
    const index = told.findIndex((one) => may(one.to, replyTo(one) ?? { type: 'leave' }));
    const [chosen] = index < 0 ? [] : told.splice(index, 1);
    const reply = chosen && replyTo(chosen);
    if (chosen === undefined || !reply) return false;
    say(chosen.to, reply);
    return true;
  };
  return {
    run,
    say,
    join: (...names) => {
      for (const name of names) event(joined(name));
    },
    joinAgain: (name) => event({ ...joined(name), wasHere: true }),
    joinGiving: (memoryBytes, name) => event(joined(name, memoryBytes)),
    vanish,
    gone: (name) => {
      vanish(name);
      now = run.state.departures?.untilMs ?? now;
      if (run.state.departures !== null) event({ type: 'deadlineReached' });
    },
    sendBack: (toStep, { name, tokens }) => {
      const steps = run.store.commits.slice(toStep);
      const earned = steps.map(({ step }) => ({ step, ledger: [{ peer: peerId(name), tokens }] }));
      const reason = `the operator sent the run back to checkpoint ${toStep}`;
      event({ type: 'sentBack', toStep, reason, lossScale: run.scales.get(toStep) ?? null, earned });
    },
    saw: (from, to) => event({ type: 'unsoundRelayed', epoch: run.state.epoch, from: peerId(from), to: peerId(to) }),
    sawSlice: (from, to, { step, slice, digest, squares = 0.25 }) =>
      event({
        type: 'sliceRelayed',
        epoch: run.state.epoch,
        ...{ step, from: peerId(from), to: peerId(to), slice, digest, squares },
      }),
    relaySaw: (seen) =>
      event({ type: 'relaySaw', epoch: run.state.epoch, ...{ whole: [], full: [], moved: 0 }, ...seen }),
    compared(isNear) {
      const asked = comparisons;
      comparisons = [];
      for (const one of asked) {
        const { epoch, step, key, keeper } = one;
        event({ type: 'copyCompared', epoch, step, key, keeper, isNear: isNear(one) });
      }
      return asked;
    },
    uploading: (name) => event({ type: 'uploading', peer: peerId(name) }),
    hold: (held) => event({ type: 'stepsHeld', held }),
    gatheringEnded: () => event({ type: 'gatheringEnded' }),
    answer: (answer, ask = null) => event({ type: 'planned', ask, answer }),
    operator: (command) => event({ type: 'operatorSaid', command }),
    now: () => now,
    pass: (ms) => {
      now += ms;
    },
    tick: () => event({ type: 'deadlineReached' }),
    expire: () => {
      for (let isLook = true; isLook; ) {
        const { phase: before } = run.state;
        now = run.decider.deadline ?? now;
        event({ type: 'deadlineReached' });
        const { phase } = run.state;
        const isSame = 'lookAt' in before && 'lookAt' in phase && before.startedAt === phase.startedAt;
        isLook = isSame && before.lookAt !== phase.lookAt;
      }
    },
    restart: () => {
      told = [];
      restart(run);
    },
    settle: (...withhold) => {
      while (answerFirst(allows(withhold)));
    },
    warmUpSlowly: () => {
      isWarmAtOnce = false;
    },
    settleOne: (...withhold) => invariant(answerFirst(allows(withhold)), 'there is something to answer'),
    peer: peerId,
    shardsOf: (name) =>
      (run.store.plan?.state ?? []).flatMap(({ block, shards }) =>
        shards.flatMap(({ peer, range }) => (peer === name ? { block, range } : [])),
      ),
    published: () => {
      const count = effects.filter(({ type }) => type === 'publish').length;
      effects = effects.filter(({ type }) => type !== 'publish');
      return count;
    },
    logs: () => {
      const texts = effects.flatMap((effect) => (effect.type === 'log' ? effect.text : []));
      effects = [];
      return texts;
    },
    trace: () => {
      const lines = effects.flatMap((effect) => effectText(effect) ?? []);
      effects = [];
      return merge(lines);
    },
  };
}

/** Its network is what its name has before a dot. */
const joined = (name: string, memoryBytes: number | null = null): Extract<RehearsedEvent, { type: 'donorJoined' }> => ({
  ...{ type: 'donorJoined', peer: peerId(name), adapter: ADAPTER, limits: { ...NO_LIMITS, memoryBytes } },
  ...{ profile: null, rememberedAs: null, remembered: null, address: name.split('.')[0] ?? name, isOwn: false },
});

const allows =
  (withhold: readonly string[]) =>
  (to: PeerId, { type }: DonorMessage): boolean =>
    !withhold.includes(`${to} ${type}`) && !withhold.includes(`* ${type}`);

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
