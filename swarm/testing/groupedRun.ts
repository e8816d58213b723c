/** For tests: a run of several groups with honest donors that answer in the order told, and a store that judges what it is to keep. */
import { arrayOf, below, invariant, overlap, type PeerId, peerId, type Random, type Range } from '../base.ts';
import type { DonorMessage, StartState } from '../coordinator/events.ts';
import { membersInvolved } from '../coordinator/successor.ts';
import { begin, type DecisionState, decide, nextDecision, snapshotOf, wholeRun } from '../decisions/decide.ts';
import type { DecisionConfig, DecisionEffect, DecisionEvent } from '../decisions/events.ts';
import { stateOf } from '../decisions/groups.ts';
import { roundEnd, roundLength, turnAt } from '../islands/rounds.ts';
import { NO_LIMITS } from '../limits.ts';
import type { MeetMessage, ServerMessage } from '../messages/messages.ts';
import { keepersOf, type Plan, peers } from '../plan/plan.ts';
import { meetingCuts } from '../ways/meeting.ts';
import { answer } from './honestDonor.ts';
import { islandsOf } from './islands.ts';
import { ADAPTER, decisionConfig, rehearsalTerms } from './rehearsalTerms.ts';

const START = {
  ...{ lastCommit: null, applied: null, plans: [], credit: [], unsaved: [] },
  ...{ generation: 0, epoch: 0, committedSteps: 0, newestCheckpointStep: 0, savedLossScale: null },
  ...{ operatorPaused: false, evaluatedSteps: null, evaluationLoss: null, loss: null },
};

export const groupedConfig = (part: Parameters<typeof rehearsalTerms>[0], replicas = 0): DecisionConfig =>
  decisionConfig(rehearsalTerms({ layers: 2, lanes: 2, ...part }).config, { replicas });

/** Two islands, rounds of four steps, three of them. */
export const TWO_GROUPS = { steps: 12, islands: islandsOf(2, 2), checkpointEverySteps: 4, expectedDonors: 2 };

export class GroupedRun {
  state: DecisionState;
  now = 1_000;
  readonly config: DecisionConfig;
  readonly commits = new Set<number>();
  readonly lines: string[] = [];
  checkpoint = 0;
  isFinished = false;
  #epoch = 0;
  #met = 0;
  #told: { readonly to: PeerId; readonly message: ServerMessage }[] = [];
  readonly #plans = new Map<PeerId, Plan>();
  /** By the word of its plan it reaches these through the server. */
  readonly #relayed = new Map<PeerId, readonly PeerId[]>();
  readonly #here = new Set<PeerId>();
  /** They were told of a meeting beside their steps, and not yet that it is over. */
  readonly #besides = new Set<PeerId>();
  /** Nobody uploads. */
  areUploadsSlow = false;
  /** These say nothing of a meeting, or something else. */
  readonly silent = new Set<PeerId>();
  readonly lying = new Set<PeerId>();
  /** Whoever speaks for an island, to whom it says something else than to the others, to each another thing. */
  readonly deceived = new Map<PeerId, readonly PeerId[] | 'all'>();
  /** What these compute is no number. */
  readonly spoilt = new Set<PeerId>();
  /** No link holds between these two. */
  readonly parted = new Set<PeerId>();
  /** Comes with the next report, each time another one; null: nothing is audited. */
  chance: number | null = null;
  #checkpoints: readonly number[] = [0];

  /** Told of each effect before it is performed; false: the server is dead. */
  perform: (effect: DecisionEffect) => boolean = () => true;
  /** Told of each message that a donor answers, and of the answer. */
  answered: (to: PeerId, message: ServerMessage) => void = () => undefined;

  constructor(config: DecisionConfig) {
    this.config = config;
    this.state = begin(config, START);
  }

  /** The server is another one now, and nobody is there yet. */
  begin(start: StartState): void {
    this.state = begin(this.config, start);
    this.#told = [];
    this.#here.clear();
  }

  get groups(): string[] {
    return this.state.groups.map(
      ({ coordinator: { config, donors } }) =>
        `${config.own?.join('+') ?? 'all'}: ${donors.map(({ peer }) => peer).join(' ')}`,
    );
  }

  tell(event: DecisionEvent): void {
    const copy = JSON.stringify(this.state);
    const [next, effects] = decide(this.state, event, this.now);
    invariant(JSON.stringify(this.state) === copy, 'nothing that was is changed');
    this.state = next;
    for (const effect of effects) {
      if (!this.perform(effect)) return;
      this.#keep(effect);
    }
    invariant(this.commits.size === wholeRun(next).coordinator.committedSteps, 'the store has what stands committed');
    snapshotOf(next, this.now);
    const convicted = effects.find((effect) => effect.type === 'convicted');
    if (convicted) this.#undo(convicted.firstStep);
  }

  /** Back to before that step, as a server does. */
  #undo(firstStep: number): void {
    this.#checkpoints = this.#checkpoints.filter((step) => step <= firstStep);
    this.checkpoint = this.#checkpoints.at(-1) ?? 0;
    this.tell({ type: 'sentBack', toStep: this.checkpoint, reason: 'it was wrong', lossScale: null, earned: [] });
  }

  /** Under way, with all that is owed of one, and what it comes to. */
  get audits() {
    return wholeRun(this.state).coordinator.audits?.pending ?? [];
  }

  judge(
    { audit, waitingFor }: GroupedRun['audits'][number],
    found: Extract<DecisionEvent, { type: 'audited' }>['found'],
  ): void {
    for (const peer of waitingFor) this.tell({ type: 'evidenceIn', audit, peer });
    this.tell({ type: 'audited', audit, found });
  }

  join(...names: string[]): void {
    for (const name of names) {
      this.#here.add(peerId(name));
      this.tell({
        ...{ type: 'donorJoined', peer: peerId(name), adapter: ADAPTER, limits: NO_LIMITS, profile: null },
        ...{ rememberedAs: null, remembered: null, address: name, isOwn: false },
      });
    }
  }

  gone(name: string): void {
    this.#here.delete(peerId(name));
    this.tell({ type: 'donorGone', peer: peerId(name), detail: 'its connection closed' });
  }

  /** What its group does under its plan cannot go on; `about`: it lost its link to that one. */
  fails(peer: PeerId, about?: PeerId): void {
    const state = stateOf(this.state.groups, peer);
    if (!membersInvolved(state).includes(peer)) return;
    const what = about ? ({ reason: 'linkLost', about } as const) : ({ reason: 'internal' } as const);
    const message = { type: 'fault', epoch: state.epoch, detail: 'its driver said no', ...what } as const;
    this.tell({ type: 'donorSaid', peer, message });
  }

  /** Whoever is told first answers first, or at random; false: there is nothing to answer. */
  answerOne(random: Random = () => 0): boolean {
    const open = this.#told.filter(({ to, message }) => this.#here.has(to) && this.#answerTo(to, message) !== null);
    const chosen = open[below(random, open.length)];
    if (chosen === undefined) return false;
    // A socket keeps the order of what one donor is told.
    const first = open.find(({ to }) => to === chosen.to) ?? chosen;
    this.#told = this.#told.filter((one) => one !== first && (open.includes(one) || isKept(one.message)));
    const said = this.#answerTo(first.to, first.message);
    this.answered(first.to, first.message);
    const chance = said?.type === 'report' && this.chance !== null ? { chance: this.chance++ } : {};
    if (said !== null) this.tell({ type: 'donorSaid', peer: first.to, message: said, ...chance });
    return true;
  }

  settle(random?: Random): void {
    while (this.answerOne(random));
  }

  /** To the next deadline. */
  expire(): void {
    this.now = Math.max(this.now, nextDecision(this.state) ?? this.now);
    this.tell({ type: 'deadlineReached' });
  }

  trace(what: RegExp): string[] {
    return this.lines.splice(0).filter((line) => what.test(line));
  }

  #answerTo(
    to: PeerId,
    message: ServerMessage,
  ): DonorMessage | Extract<DecisionEvent, { type: 'donorSaid' }>['message'] | null {
    const plan = this.#plans.get(to);
    if (message.type === 'meet') {
      if (this.silent.has(to)) return null;
      const about = [...this.parted].find((one) => one !== to);
      const through = [...(message.relayed ?? []), ...(this.#relayed.get(to) ?? [])];
      if (about !== undefined && this.parted.has(to) && !through.includes(about))
        return { type: 'fault', epoch: message.epoch, reason: 'linkLost', detail: 'it closed', about };
      const digests = message.groups.flatMap(({ state }) =>
        state.flatMap(({ block, shards }) =>
          shards.flatMap(({ peer, replicas, range }) =>
            [peer, ...replicas].includes(to)
              ? meetingCuts(message.groups)(block, range).map((cut) => ({
                  ...{ block, range: cut },
                  digest: (this.lying.has(to) ? 'x' : this.#comesTo(to, message, block)).padEnd(22, '-'),
                }))
              : [],
          ),
        ),
      );
      const { epoch, round, attempt } = message;
      const heard = message.traced && digests.map((part) => this.#heardOf(to, message, part));
      return {
        ...{ type: 'met', epoch, round, attempt, digests, bytesDirect: 3, bytesRelayed: 0 },
        ...(heard && { heard }),
      };
    }
    if (this.areUploadsSlow && message.type === 'save') return null;
    const told = message.type === 'warm' ? message.plan : plan;
    const said = told === undefined ? null : answer(this.config.run, to, told, message);
    if (said?.type !== 'report' || !this.spoilt.has(to)) return said;
    return { ...said, losses: said.losses.map(({ microBatch }) => ({ microBatch, lossSum: null })) };
  }

  /** Of what islands say of a block: who was told something else comes to something else. */
  #comesTo(to: PeerId, { groups }: MeetMessage, block: string): string {
    const speakers = groups.flatMap(({ state }) =>
      state.flatMap((one) => (one.block === block ? one.shards.map(({ peer }) => peer) : [])),
    );
    return speakers.some((speaker) => this.#isDeceived(to, speaker)) ? `d${to}` : 'd';
  }

  #isDeceived(to: PeerId, speaker: PeerId): boolean {
    const whom = this.deceived.get(speaker);
    return speaker !== to && (whom === 'all' || whom?.includes(to) === true);
  }

  #heardOf(to: PeerId, { groups }: MeetMessage, { block, range }: { readonly block: string; readonly range: Range }) {
    const islands = groups.flatMap((group) => group.islands);
    const digests = groups.flatMap((group) =>
      group.islands.map(() => {
        const { shards = [] } = group.state.find((one) => one.block === block) ?? {};
        const speaker = shards.find((shard) => overlap(shard.range, range) !== null)?.peer;
        return (speaker !== undefined && this.#isDeceived(to, speaker) ? `h${to}` : 'h').padEnd(22, '-');
      }),
    );
    return { block, range, islands, digests };
  }

  #keep(effect: DecisionEffect): void {
    const { train } = this.config.run;
    switch (effect.type) {
      case 'send': {
        const { to, message } = effect;
        invariant(this.#here.has(to), `${to} is told ${message.type} although it is gone`);
        if (message.type === 'prepare') {
          const { source } = message;
          const gives =
            source.from === 'kept' ||
            (source.from === 'peers' &&
              source.plan.state.some(({ shards }) => shards.some((one) => keepersOf(one).includes(to))));
          invariant(
            !gives || !this.#besides.has(to),
            `${to} gives what came of the meeting that it ended its round for`,
          );
          this.#besides.delete(to);
          this.#plans.set(to, message.plan);
          this.#relayed.set(to, message.relayed ?? []);
        }
        if (message.type === 'meet' && message.beside) this.#besides.add(to);
        if (message.type === 'meetingOver') this.#besides.delete(to);
        if (message.type === 'start') {
          const own = this.#plans.get(to)?.islands;
          const { island } = turnAt(train, message.step);
          invariant(own === undefined || own.includes(island), `step ${message.step} is of the group's own islands`);
        }
        this.#told.push(effect);
        const isSeen = message.type === 'meet' || message.type === 'meetingOver';
        if (isSeen) this.lines.push(`${to} < ${message.type} ${message.round}${through(message)}`);
        return;
      }
      case 'storeEpoch':
        invariant(effect.epoch > this.#epoch, 'epochs rise over all groups');
        this.#epoch = effect.epoch;
        this.lines.push(
          `epoch ${effect.epoch} ${effect.plan.islands?.join('+') ?? 'all'}: ${peers(effect.plan).join(' ')}`,
        );
        return;
      case 'storeCommit': {
        const { step } = effect.record;
        invariant(!this.commits.has(step), `step ${step} is committed once`);
        const { round } = turnAt(train, step);
        const { tookIn = round } = effect.record;
        invariant(tookIn === round || tookIn === round - 1, 'what came of a meeting is a round late at most');
        // One group that has all islands meets in its steps.
        const isApart = this.state.groups.some(({ coordinator }) => coordinator.config.own !== undefined);
        invariant(
          !isApart || tookIn * roundLength(train) <= Math.max(this.#met, this.checkpoint),
          'what is taken in has come of a meeting that is over',
        );
        this.commits.add(step);
        this.lines.push(`commit ${step}`);
        return;
      }
      case 'storeMeeting': {
        const end = effect.committedSteps;
        const before = [...this.commits].filter((step) => step < end).length;
        invariant(before === end, `all steps of the round before ${end} are committed`);
        invariant(this.commits.size === end || train.islands?.overlap, `and no others`);
        this.#met = end;
        this.lines.push(`met ${end}`);
        return;
      }
      case 'storeCheckpoint': {
        invariant(effect.step > this.checkpoint, 'checkpoints go forward');
        const all = arrayOf(Number(train.islands?.count ?? 0), (island) => island);
        const saved = new Set(effect.shards.flatMap((shard) => shard.islands ?? all));
        invariant(saved.size === all.length, 'every island is in a checkpoint');
        this.checkpoint = effect.step;
        this.#checkpoints = [...this.#checkpoints, effect.step];
        this.lines.push(`checkpoint ${effect.step}`);
        return;
      }
      case 'rollBack':
        invariant(effect.toStep === this.checkpoint && effect.atStep === this.commits.size, 'back to the checkpoint');
        for (const step of [...this.commits]) if (step >= effect.toStep) this.commits.delete(step);
        this.#met = effect.toStep;
        this.lines.push(`back from ${effect.atStep} to ${effect.toStep}`);
        return;
      case 'storeEvaluation':
        invariant(
          effect.committedSteps === roundEnd(train, effect.committedSteps - 1) || effect.committedSteps === 0,
          'at meetings',
        );
        this.lines.push(`evaluation ${effect.committedSteps}`);
        return;
      case 'refuse':
        this.#here.delete(effect.peer);
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

/** Until it is answered. */
const isKept = ({ type }: ServerMessage): boolean => type === 'save' || type === 'meet';

const through = (message: ServerMessage): string =>
  message.type === 'meet' && message.relayed ? ` through the server: ${message.relayed.join(' ')}` : '';
