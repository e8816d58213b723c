import { describe, expect, it } from 'vitest';
import { below, invariant, type PeerId, peerId, type Random, seededRandom } from '../base.ts';
import type { DonorMessage } from '../coordinator/events.ts';
import { roundEnd, turnAt } from '../islands/rounds.ts';
import { NO_LIMITS } from '../limits.ts';
import type { ServerMessage } from '../messages/messages.ts';
import { type Plan, peers } from '../plan/plan.ts';
import { answer } from '../testing/honestDonor.ts';
import { islandsOf } from '../testing/islands.ts';
import { ADAPTER, decisionConfig, rehearsalTerms } from '../testing/rehearsalTerms.ts';
import { meetingCuts } from '../ways/meeting.ts';
import { begin, type DecisionState, decide, nextDecision, snapshotOf, wholeRun } from './decide.ts';
import type { DecisionConfig, DecisionEffect, DecisionEvent } from './events.ts';

const START = {
  ...{ lastCommit: null, applied: null, plans: [], credit: [], unsaved: [] },
  ...{ generation: 0, epoch: 0, committedSteps: 0, newestCheckpointStep: 0, savedLossScale: null },
  ...{ operatorPaused: false, evaluatedSteps: null, evaluationLoss: null, loss: null, norms: [] },
};

const configOf = (part: Parameters<typeof rehearsalTerms>[0], replicas = 0): DecisionConfig =>
  decisionConfig(rehearsalTerms({ layers: 2, lanes: 2, ...part }).config, { replicas, groups: 8 });

/** A run with honest donors, that answer in the order told, and a store that judges what it is to keep. */
class GroupedRun {
  state: DecisionState;
  now = 1_000;
  readonly config: DecisionConfig;
  readonly commits = new Set<number>();
  readonly lines: string[] = [];
  checkpoint = 0;
  isFinished = false;
  #epoch = 0;
  #told: { readonly to: PeerId; readonly message: ServerMessage }[] = [];
  readonly #plans = new Map<PeerId, Plan>();
  readonly #here = new Set<PeerId>();
  /** Nobody uploads. */
  areUploadsSlow = false;
  /** These say nothing of a meeting, or something else. */
  readonly silent = new Set<PeerId>();
  readonly lying = new Set<PeerId>();

  constructor(config: DecisionConfig) {
    this.config = config;
    this.state = begin(config, START);
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
    for (const effect of effects) this.#keep(effect);
    invariant(this.commits.size === wholeRun(next).coordinator.committedSteps, 'the store has what stands committed');
    snapshotOf(next, this.now);
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

  /** Whoever is told first answers first, or at random; false: there is nothing to answer. */
  answerOne(random: Random = () => 0): boolean {
    const open = this.#told.filter(({ to, message }) => this.#here.has(to) && this.#answerTo(to, message) !== null);
    const chosen = open[below(random, open.length)];
    if (chosen === undefined) return false;
    // A socket keeps the order of what one donor is told.
    const first = open.find(({ to }) => to === chosen.to) ?? chosen;
    this.#told = this.#told.filter((one) => one !== first && (open.includes(one) || one.message.type === 'save'));
    const said = this.#answerTo(first.to, first.message);
    if (said !== null) this.tell({ type: 'donorSaid', peer: first.to, message: said });
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
      const digests = message.groups.flatMap(({ state }) =>
        state.flatMap(({ block, shards }) =>
          shards.flatMap(({ peer, replicas, range }) =>
            [peer, ...replicas].includes(to)
              ? meetingCuts(message.groups, block, range).map((cut) => ({
                  ...{ block, range: cut },
                  digest: (this.lying.has(to) ? 'x' : 'd').padEnd(22, '-'),
                }))
              : [],
          ),
        ),
      );
      const { epoch, round, attempt } = message;
      return { type: 'met', epoch, round, attempt, digests, bytesDirect: 3, bytesRelayed: 0 };
    }
    if (this.areUploadsSlow && message.type === 'save') return null;
    const told = message.type === 'warm' ? message.plan : plan;
    return told === undefined ? null : answer(this.config.run, to, told, message);
  }

  #keep(effect: DecisionEffect): void {
    const { train } = this.config.run;
    switch (effect.type) {
      case 'send': {
        const { to, message } = effect;
        invariant(this.#here.has(to), `${to} is told ${message.type} although it is gone`);
        if (message.type === 'prepare') this.#plans.set(to, message.plan);
        if (message.type === 'start') {
          const own = this.#plans.get(to)?.islands;
          const { island } = turnAt(train, message.step);
          invariant(own === undefined || own.includes(island), `step ${message.step} is of the group's own islands`);
        }
        this.#told.push(effect);
        const isSeen = message.type === 'meet' || message.type === 'meetingOver';
        if (isSeen) this.lines.push(`${to} < ${message.type} ${message.round}`);
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
        this.commits.add(step);
        this.lines.push(`commit ${step}`);
        return;
      }
      case 'storeMeeting': {
        const end = effect.committedSteps;
        invariant(this.commits.size === end, `all steps of the round before ${end} are committed, and no others`);
        this.lines.push(`met ${end}`);
        return;
      }
      case 'storeCheckpoint': {
        invariant(effect.step > this.checkpoint, 'checkpoints go forward');
        const all = Array.from({ length: train.islands?.count ?? 0 }, (_, island) => island);
        const saved = new Set(effect.shards.flatMap((shard) => shard.islands ?? all));
        invariant(saved.size === all.length, 'every island is in a checkpoint');
        this.checkpoint = effect.step;
        this.lines.push(`checkpoint ${effect.step}`);
        return;
      }
      case 'rollBack':
        invariant(effect.toStep === this.checkpoint && effect.atStep === this.commits.size, 'back to the checkpoint');
        for (const step of [...this.commits]) if (step >= effect.toStep) this.commits.delete(step);
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

/** Two islands, rounds of four steps, three of them. */
const ROUNDS = { ...{ steps: 12, islands: islandsOf(2, 2), checkpointEverySteps: 4 }, expectedDonors: 2 };
const SHOWN = /^(epoch|commit|met|checkpoint|back|evaluation|refuse|. < )/;

/** Up to here with this many commits. */
function untilCommitted(run: GroupedRun, steps: number) {
  while (run.commits.size < steps) invariant(run.answerOne(), 'somebody answers');
}

describe('two groups of donors', () => {
  it('[IS50] [IS51] [IS52] train islands of their own, meet after each round, and save together', () => {
    const run = new GroupedRun(configOf({ ...ROUNDS, steps: 8, evaluation: { everySteps: 4, windows: 4 } }));
    run.join('a', 'b');
    expect(run.groups).toEqual(['0: a', '1: b']);
    run.settle();
    expect(run.isFinished).toBe(true);
    expect(run.groups).toEqual(['all: a b']);
    expect(run.trace(SHOWN)).toEqual([
      ...['epoch 1 0: a', 'epoch 2 1: b', 'evaluation 0'],
      ...['commit 2', 'commit 0', 'commit 3', 'commit 1', 'a < meet 0', 'b < meet 0'],
      ...['met 4', 'a < meetingOver 0', 'b < meetingOver 0', 'evaluation 4', 'checkpoint 4'],
      ...['commit 6', 'commit 4', 'commit 7', 'commit 5', 'a < meet 1', 'b < meet 1'],
      ...['met 8', 'a < meetingOver 1', 'b < meetingOver 1', 'checkpoint 8', 'evaluation 8'],
    ]);
  });

  it('[IS50] are as many as there are islands, or donors; both are shared out in order', () => {
    const run = new GroupedRun(configOf({ steps: 6, islands: islandsOf(3, 1), expectedDonors: 5 }));
    run.join('a', 'b', 'c', 'd', 'e');
    expect(run.groups).toEqual(['0: a b', '1: c d', '2: e']);
    const few = new GroupedRun(configOf({ steps: 6, islands: islandsOf(3, 1), expectedDonors: 2 }));
    few.join('a', 'b');
    expect(few.groups).toEqual(['0+1: a', '2: b']);
    few.settle();
    expect(few.trace(/^commit/)).toHaveLength(6);
    expect(few.isFinished).toBe(true);
    const alone = new GroupedRun(configOf({ steps: 6, islands: islandsOf(3, 1) }));
    alone.join('a');
    expect(alone.groups).toEqual(['all: a']);
  });

  it('[IS50] a newcomer goes where the fewest are, and no step is given up for it', () => {
    const run = new GroupedRun(configOf(ROUNDS));
    run.join('a', 'b');
    untilCommitted(run, 5);
    run.join('c');
    run.join('d');
    expect(run.groups).toEqual(['0: a c', '1: b d']);
    run.settle();
    expect(run.isFinished).toBe(true);
    expect(run.trace(/^(epoch|back)/)).toEqual(['epoch 1 0: a', 'epoch 2 1: b', 'epoch 3 0: a c', 'epoch 4 1: b d']);
  });

  it('[IS53] one that loses a donor whose state others have goes on by itself, and the other one with its steps', () => {
    const run = new GroupedRun(configOf({ ...ROUNDS, expectedDonors: 4 }, 1));
    run.join('a', 'b', 'c', 'd');
    expect(run.groups).toEqual(['0: a b', '1: c d']);
    untilCommitted(run, 5);
    run.gone('b');
    const before = run.commits.size;
    while (run.answerOne());
    // Group 1 does all of its round meanwhile.
    expect(run.commits.size).toBeGreaterThan(before);
    run.expire();
    run.settle();
    expect(run.isFinished).toBe(true);
    expect(run.trace(/^(back|refuse)/)).toEqual([]);
  });

  it('[IS53] one whose state is lost: all go back to the checkpoint, and are as many as there are donors', () => {
    const run = new GroupedRun(configOf(ROUNDS));
    run.join('a', 'b', 'c');
    untilCommitted(run, 6);
    expect(run.groups).toEqual(['0: a c', '1: b']);
    run.gone('b');
    expect(run.groups).toEqual(['0: a', '1: c']);
    untilCommitted(run, 7);
    run.gone('c');
    expect(run.groups).toEqual(['all: a']);
    run.settle();
    expect(run.isFinished).toBe(true);
    expect(run.trace(/^back/)).toEqual(['back from 6 to 4', 'back from 7 to 4']);
  });

  it('[IS51] who does not meet is asked again twice, then its group goes on without it', () => {
    const run = new GroupedRun(configOf({ ...ROUNDS, expectedDonors: 4 }, 1));
    run.join('a', 'b', 'c', 'd');
    run.silent.add(peerId('d'));
    run.settle();
    expect(run.commits.size).toBe(4);
    run.expire();
    run.settle();
    expect(run.trace(/^(met|refuse)/)).toEqual([]);
    run.expire();
    expect(run.trace(/^refuse/)).toEqual(['refuse d tooLate']);
    run.settle();
    run.expire();
    run.settle();
    expect(run.isFinished).toBe(true);
    expect(run.trace(/^back/)).toEqual([]);
  });

  it('[IS51] what comes of a meeting is the same for all, or it is held again; who is alone with it goes', () => {
    const run = new GroupedRun(configOf({ ...ROUNDS, expectedDonors: 4 }, 1));
    run.join('a', 'b', 'c', 'd');
    run.lying.add(peerId('c'));
    run.settle();
    expect(run.trace(/^refuse/)).toEqual(['refuse c tooLate']);
    run.expire();
    run.settle();
    expect(run.isFinished).toBe(true);
  });

  it('[IS52] a pause, and a donor that leaves alone, wait for the meeting and its checkpoint, and give nothing up', () => {
    const run = new GroupedRun(configOf({ ...ROUNDS, checkpointEverySteps: 12 }));
    run.join('a', 'b');
    untilCommitted(run, 1);
    run.tell({ type: 'operatorSaid', command: 'pause' });
    run.settle();
    expect(run.groups).toEqual(['all: a b']);
    expect(wholeRun(run.state).coordinator.phase.name).toBe('paused');
    run.tell({ type: 'operatorSaid', command: 'resume' });
    expect(run.groups).toEqual(['0: a', '1: b']);
    untilCommitted(run, 5);
    run.tell({ type: 'donorSaid', peer: peerId('b'), message: { type: 'leave' } });
    run.settle();
    expect(run.isFinished).toBe(true);
    expect(run.trace(/^(checkpoint|back)/)).toEqual(['checkpoint 4', 'checkpoint 8', 'checkpoint 12']);
  });
});

it('[IS52] where too much would be unsaved all wait at a meeting, and go on once all is saved', () => {
  const run = new GroupedRun(configOf({ ...ROUNDS, steps: 16 }));
  run.join('a', 'b');
  run.areUploadsSlow = true;
  run.settle();
  // A checkpoint is due after 4 steps, and as many again may be unsaved while it is on its way.
  expect(run.commits.size).toBe(8);
  run.areUploadsSlow = false;
  run.settle();
  expect(run.isFinished).toBe(true);
  expect(run.trace(/^back/)).toEqual([]);
});

/** Donors that come, go, leave, are slow to meet or say wrong things, in an order by chance; then nothing more goes wrong. */
function chaos(seed: number) {
  const random = seededRandom(seed);
  const islands = islandsOf(2, 1 + below(random, 3));
  const run = new GroupedRun(configOf({ steps: 16, islands, checkpointEverySteps: 4, lanes: 3 }, below(random, 2)));
  run.join('a', 'b', 'c');
  let named = 3;
  for (let event = 0; event < 150 && !run.isFinished; event++) {
    const here = wholeRun(run.state).coordinator.donors.map(({ peer }) => peer);
    const one = here[below(random, here.length)];
    const luck = below(random, 40);
    if (luck === 0 && one !== undefined && here.length > 1) run.gone(one);
    else if (luck === 1) run.join(`x${named++}`);
    else if (luck === 2 && one !== undefined && here.length > 1)
      run.tell({ type: 'donorSaid', peer: one, message: { type: 'leave' } });
    else if (luck === 3) run.tell({ type: 'operatorSaid', command: 'pause' });
    else if (luck === 4) run.tell({ type: 'operatorSaid', command: 'resume' });
    else if (luck === 5 && one !== undefined) run.silent.add(one);
    else if (luck === 6 && one !== undefined) run.lying.add(one);
    else if (luck === 7) run.areUploadsSlow = !run.areUploadsSlow;
    else if (luck < 10) run.expire();
    else if (!run.answerOne(random)) run.expire();
  }
  run.areUploadsSlow = false;
  run.silent.clear();
  run.lying.clear();
  run.tell({ type: 'operatorSaid', command: 'resume' });
  if (wholeRun(run.state).coordinator.donors.length === 0) run.join('last');
  for (let tries = 0; tries < 200 && !run.isFinished; tries++) {
    run.settle(random);
    if (!run.isFinished) run.expire();
  }
  return run;
}

it('[IS53] whatever happens by chance: each step is committed once, and the run ends', () => {
  const seeds = process.env.SHOAL_LONG ? 2_000 : 60;
  for (let seed = 0; seed < seeds; seed++) expect(chaos(seed).isFinished, `seed ${seed}`).toBe(true);
});
