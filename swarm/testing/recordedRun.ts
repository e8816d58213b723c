/**
 * A run with `count: "auto"` and honest donors of unequal speed, on a clock of its own: what anybody is told is answered
 * after as long as it takes there. It keeps what a store would, and judges it.
 */
import { findGroups } from '../autoplan/groupsAnew.ts';
import { clusterProblem } from '../autoplan/knownDonors.ts';
import { got, invariant, type PeerId, peerId, type Range, totalOf } from '../base.ts';
import type { CommitRecord } from '../coordinator/events.ts';
import { begin, type DecisionState, decide, nextDecision, snapshotOf, wholeRun } from '../decisions/decide.ts';
import type { DecisionConfig, DecisionEffect, DecisionEvent } from '../decisions/events.ts';
import { freeBut } from '../islands/giving.ts';
import { type Limits, NO_LIMITS } from '../limits.ts';
import type { ServerMessage } from '../messages/messages.ts';
import type { Profile } from '../messages/profile.ts';
import type { LedgerEntry } from '../plan/ledger.ts';
import { type Plan, peers } from '../plan/plan.ts';
import { planCluster } from '../planner/clusterPlan.ts';
import { meetingCuts } from '../ways/meeting.ts';
import { answer } from './honestDonor.ts';
import { ADAPTER } from './rehearsalTerms.ts';
import { SharedState } from './sharedState.ts';

const START = {
  ...{ lastCommit: null, applied: null, plans: [], credit: [], unsaved: [] },
  ...{ generation: 0, epoch: 0, committedSteps: 0, newestCheckpointStep: 0, savedLossScale: null },
  ...{ operatorPaused: false, evaluatedSteps: null, evaluationLoss: null, loss: null },
};

/** What comes of an audit of whoever lies. */
export const DIFFERS = {
  ...{ result: 'differs', microBatch: 1, direction: 'B', evidence: 'it is off by 1 %' },
} as const satisfies Extract<DecisionEvent, { type: 'audited' }>['found'];

type Said = Extract<DecisionEvent, { type: 'donorSaid' }>['message'];
interface Later {
  readonly atMs: number;
  readonly order: number;
  readonly event: DecisionEvent;
}
export type Recorded = Required<Pick<CommitRecord, 'step' | 'number' | 'island' | 'round' | 'innerStep'>> & {
  readonly tookIn: number | undefined;
  readonly ledger: readonly LedgerEntry[];
};

/** Drafts that a search for a plan judges. */
const SEARCH_WORK = 200;
/** Of so many events one is looked at closely: it takes longer than all that is decided. */
const LOOKED_AT = 16;

export class RecordedRun {
  state: DecisionState;
  now = 1_000;
  readonly config: DecisionConfig;
  /** What stands committed, by count. */
  commits: Recorded[] = [];
  /** Committed steps at each meeting. */
  readonly meetings: number[] = [];
  readonly lines: string[] = [];
  isFinished = false;
  /** What a meeting takes. */
  meetMs = 1;
  /** What an upload takes. */
  uploadMs = 1;
  /** What a search for groups comes to. */
  find = findGroups;
  /** What a search takes. */
  searchMs = 80;
  /** These say nothing of a meeting. */
  readonly silent = new Set<PeerId>();
  /** Comes with the next report, each time another one; null: nothing is audited. */
  chance: number | null = null;
  /** What an audit takes, and of whom and of which number it finds something wrong. */
  auditMs = 1;
  isWrong: (peer: PeerId, number: number) => boolean = () => false;
  #checkpoints: readonly number[] = [0];
  /** What each message takes, of a step and of anything else. */
  readonly #stepMs = new Map<PeerId, number>();
  readonly #plans = new Map<PeerId, Plan>();
  readonly #shared = new SharedState();
  #answers: Later[] = [];
  #order = 0;
  #checkpoint = 0;
  #events = 0;

  constructor(config: DecisionConfig) {
    this.config = config;
    this.state = begin(config, START);
  }

  /** `profile`: what its admission measured; null: nothing is known of it. */
  join(name: string, stepMs: number, profile: Profile | null = null, limits: Partial<Limits> = {}): void {
    const peer = peerId(name);
    this.#stepMs.set(peer, stepMs);
    this.tell({
      ...{ type: 'donorJoined', peer, adapter: ADAPTER, limits: { ...NO_LIMITS, ...limits }, profile },
      ...{ rememberedAs: null, remembered: null, address: name, isOwn: false },
    });
  }

  gone(name: string): void {
    this.#drop(peerId(name));
    this.tell({ type: 'donorGone', peer: peerId(name), detail: 'its connection closed' });
  }

  leave(name: string): void {
    this.tell({ type: 'donorSaid', peer: peerId(name), message: { type: 'leave' } });
  }

  /** From now on its steps take so long. */
  slow(name: string, stepMs: number): void {
    this.#stepMs.set(peerId(name), stepMs);
  }

  get here(): readonly PeerId[] {
    return [...this.#stepMs.keys()];
  }

  #drop(peer: PeerId) {
    this.#stepMs.delete(peer);
    this.#answers = this.#answers.filter(({ event }) => !('peer' in event) || event.peer !== peer);
  }

  tell(event: DecisionEvent): void {
    const isLookedAt = this.#events++ % LOOKED_AT === 0;
    const copy = isLookedAt ? JSON.stringify(this.state) : '';
    const [next, effects] = decide(this.state, event, this.now);
    if (isLookedAt) {
      invariant(JSON.stringify(this.state) === copy, 'nothing that was is changed');
      invariant(JSON.stringify(JSON.parse(JSON.stringify(next))) === JSON.stringify(next), 'the state is plain data');
    }
    this.state = next;
    for (const effect of effects) this.#keep(effect);
    invariant(
      this.commits.length === wholeRun(next).coordinator.committedSteps,
      `the store has what stands committed: ${this.commits.length}, ${wholeRun(next).coordinator.committedSteps}`,
    );
    for (const { peer, tokens } of wholeRun(next).coordinator.donors)
      invariant(
        !isLookedAt || tokens === this.#earned(peer),
        `${peer} has ${tokens} tokens, and earned ${this.#earned(peer)}`,
      );
    snapshotOf(next, this.now);
    const convicted = effects.find((effect) => effect.type === 'convicted');
    if (convicted) this.#undo(convicted.firstStep);
  }

  /** Back to before that step, as a server does. */
  #undo(firstStep: number): void {
    this.#checkpoints = this.#checkpoints.filter((step) => step <= firstStep);
    const toStep = Math.max(...this.#checkpoints);
    this.#checkpoint = toStep;
    const [kept, undone] = [this.commits.slice(0, toStep), this.commits.slice(toStep)];
    const numbers = kept.map(({ number }) => number);
    const recorded = {
      free: freeBut(this.config.run.steps, numbers),
      round: (kept.at(-1)?.round ?? -1) + 1,
      nextIsland: Math.max(...this.commits.map(({ island }) => island)) + 1,
    };
    const earned = [{ step: toStep, ledger: undone.flatMap(({ ledger }) => ledger) }];
    this.tell({ type: 'sentBack', toStep, reason: 'it was wrong', lossScale: null, earned, recorded });
  }

  #earned(peer: PeerId): number {
    const own = this.commits.flatMap(({ ledger }) => ledger.filter((entry) => entry.peer === peer));
    return totalOf(own, ({ tokens }) => tokens);
  }

  /** To the next thing that happens; false: nothing does. */
  advance(): boolean {
    const [first] = this.#answers.toSorted((a, b) => a.atMs - b.atMs || a.order - b.order);
    const deadline = nextDecision(this.state);
    if (first === undefined && deadline === null) return false;
    if (first !== undefined && (deadline === null || first.atMs <= deadline)) {
      this.#answers = this.#answers.filter((one) => one !== first);
      this.now = Math.max(this.now, first.atMs);
      this.tell(first.event);
    } else {
      this.now = Math.max(this.now, deadline ?? this.now);
      this.tell({ type: 'deadlineReached' });
    }
    return true;
  }

  finish(most = 100_000): void {
    for (let events = 0; events < most && !this.isFinished; events++)
      invariant(this.advance(), `the run stands: ${snapshotOf(this.state, this.now).sentence}`);
  }

  #later(tookMs: number, event: DecisionEvent): void {
    this.#answers.push({ atMs: this.now + tookMs, order: this.#order++, event });
  }

  #answerTo(to: PeerId, message: ServerMessage): Said | null {
    if (message.type === 'meet') {
      const shards = message.groups.flatMap(({ state }) =>
        state.flatMap(({ block, shards: all }) => all.map((shard) => ({ block, ...shard }))),
      );
      const kept = shards.filter(({ peer, replicas }) => [peer, ...replicas].includes(to));
      const owns = (message.owners?.ranges ?? []).filter(({ keep }) => keep.includes(to));
      const cuts = meetingCuts(message.groups, message.owners);
      const parts = [...kept, ...owns].flatMap(({ block, range }) =>
        cuts(block, range).map((cut) => `${block} ${cut}`),
      );
      const digests = [...new Set(parts)].map((part) => {
        const [block = '', range = ''] = part.split(' ');
        const [from = 0, end = 0] = range.split(',').map(Number);
        return { block, range: [from, end] satisfies Range, digest: 'd'.padEnd(22, '-') };
      });
      const { epoch, round, attempt } = message;
      const owned = this.#shared.metBy(to, message);
      return { type: 'met', epoch, round, attempt, digests, ...owned, bytesDirect: 3, bytesRelayed: 0 };
    }
    const told = message.type === 'warm' ? message.plan : this.#plans.get(to);
    return told === undefined ? null : answer(this.config.run, to, told, message);
  }

  #keep(effect: DecisionEffect): void {
    switch (effect.type) {
      case 'send': {
        const { to, message } = effect;
        const stepMs = got(this.#stepMs, to);
        if (message.type === 'standby' && message.state === 'left') {
          this.#drop(to);
          return;
        }
        if (message.type === 'prepare') this.#plans.set(to, message.plan);
        this.#shared.told(to, message, this.#plans.get(to));
        const owed = message.type === 'committed' ? (message.evidence ?? []) : [];
        for (const { audit } of owed) this.#later(1, { type: 'evidenceIn', audit, peer: to });
        const said = message.type === 'meet' && this.silent.has(to) ? null : this.#answerTo(to, message);
        const tooks: Partial<Record<ServerMessage['type'], number>> = {
          start: stepMs,
          meet: this.meetMs,
          save: this.uploadMs,
        };
        const tookMs = tooks[message.type] ?? 1;
        const chance = said?.type === 'report' && this.chance !== null ? { chance: this.chance++ } : {};
        if (said) this.#later(tookMs, { type: 'donorSaid', peer: to, message: said, ...chance });
        return;
      }
      case 'audit': {
        const { audit, peer, number } = effect;
        const found = this.isWrong(peer, number) ? DIFFERS : ({ result: 'agrees' } as const);
        this.#later(this.auditMs, { type: 'audited', audit, found });
        return;
      }
      case 'searchGroups': {
        const found = this.find(this.config.planning, effect.problem);
        this.#later(this.searchMs, { type: 'groupsFound', search: effect.search, found });
        return;
      }
      case 'search': {
        const found = planCluster(
          clusterProblem(this.config.planning, effect.problem),
          ({ work }) => work < SEARCH_WORK,
        );
        this.#later(this.searchMs, { type: 'searched', search: effect.search, found });
        return;
      }
      case 'storeEpoch':
        this.lines.push(`epoch ${effect.plan.islands?.join('+') ?? 'all'}: ${peers(effect.plan).join(' ')}`);
        return;
      case 'storeCommit': {
        const { step, number = -1, island = -1, round = -1, innerStep = -1, tookIn } = effect.record;
        invariant(step === this.commits.length, 'steps are counted in the order in which they are committed');
        invariant(
          this.commits.every((one) => one.number !== number),
          `number ${number} is done once`,
        );
        this.commits.push({ step, number, island, round, innerStep, tookIn, ledger: effect.ledger });
        return;
      }
      case 'storeMeeting':
        invariant(
          effect.committedSteps === this.commits.length ||
            (this.config.run.train.islands?.overlap && effect.committedSteps < this.commits.length),
          'what is met is committed, and nothing else',
        );
        this.meetings.push(effect.committedSteps);
        return;
      case 'islandEnded': {
        const { island, from } = effect;
        this.commits = this.commits
          .filter((one) => one.step < from || one.island !== island)
          .map((one, step) => ({ ...one, step }));
        this.lines.push(`island ${island} has ended`);
        return;
      }
      case 'storeCheckpoint':
        invariant(effect.step > this.#checkpoint && effect.step <= this.commits.length, 'checkpoints go forward');
        invariant(
          effect.shards.every(({ islands }) => islands === undefined),
          'it is of no island',
        );
        this.#checkpoint = effect.step;
        this.#checkpoints = [...this.#checkpoints, effect.step];
        this.#shared.saved(effect.step);
        this.lines.push(`checkpoint ${effect.step}`);
        return;
      case 'rollBack':
        invariant(
          effect.toStep === this.#checkpoint && effect.atStep === this.commits.length,
          'back to the checkpoint',
        );
        this.commits = this.commits.slice(0, effect.toStep);
        this.#shared.back(effect.toStep);
        this.lines.push(`back from ${effect.atStep} to ${effect.toStep}`);
        return;
      case 'refuse':
        this.#drop(effect.peer);
        this.lines.push(`refuse ${effect.peer} ${effect.reason}`);
        return;
      case 'finished':
        this.isFinished = true;
        return;
      default:
        return;
    }
  }
}
