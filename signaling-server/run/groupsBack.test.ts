/**
 * Several groups of donors and a server that is killed: the decisions with a real store, and donors who keep what they have
 * as a tab does. The server dies between any two effects of a run; what is on its way to a donor then may be lost.
 */
import { DatabaseSync } from '@photostructure/sqlite';
import { describe, expect, it } from 'vitest';
import { at, below, invariant, type PeerId, peerId, type Random, seededRandom } from '../../swarm/base.ts';
import { DEADLINES } from '../../swarm/coordinator/deadlines.ts';
import { awaitingGroup, greetingOf } from '../../swarm/decisions/comingBack.ts';
import { wholeRun } from '../../swarm/decisions/decide.ts';
import type { DecisionEffect } from '../../swarm/decisions/events.ts';
import { nextStep, roundEnd, roundLength } from '../../swarm/islands/rounds.ts';
import type { ResumedMessage, ServerMessage, Standing } from '../../swarm/messages/messages.ts';
import { type Plan, peers } from '../../swarm/plan/plan.ts';
import { GroupedRun, groupedConfig } from '../../swarm/testing/groupedRun.ts';
import { islandsOf, overlapping } from '../../swarm/testing/islands.ts';
import { storeOn } from '../store/store.ts';
import { startState } from './runStart.ts';

const NAME = 'r';
/** Two rounds, of which the first is not saved. */
const ROUNDS = { ...{ steps: 8, islands: islandsOf(2, 2), checkpointEverySteps: 8 }, expectedDonors: 4 };

/** What a tab keeps, as far as a server may ask for it. */
class Tab {
  generation = 0;
  plan: Plan | null = null;
  role: Standing | null = null;
  handedOver: Standing | null = null;
  /** The round's end that an attempt came to. */
  outcome: number | null = null;
  /** On its way to it. */
  readonly coming: ServerMessage[] = [];

  /** The first so many of what is on its way; the others are lost. */
  hear(config: GroupedRun['config']['run'], me: PeerId, count = this.coming.length): void {
    for (const message of this.coming.splice(0).slice(0, count)) this.#heard(config.train, me, message);
  }

  #heard(train: GroupedRun['config']['run']['train'], me: PeerId, message: ServerMessage): void {
    if (message.type === 'prepare') {
      const { epoch, step, met, plan, source, generation } = message;
      if (source.from === 'peers') this.handedOver ??= this.role;
      const isIn = peers(plan).includes(me);
      this.role = isIn ? { epoch, step, ...(met === undefined ? {} : { met }) } : null;
      Object.assign(this, { generation, plan, outcome: null });
    }
    if (message.type === 'start') this.handedOver = null;
    if (message.type === 'committed') this.committed(train, message);
    if (message.type === 'meetingOver') this.met(roundEnd(train, message.round * roundLength(train)));
  }

  committed(
    train: GroupedRun['config']['run']['train'],
    { epoch, step }: { readonly epoch: number; readonly step: number },
  ): void {
    const { role, plan } = this;
    if (role?.epoch !== epoch || nextStep(train, role.step, plan?.islands) !== step) return;
    this.role = { ...role, step: step + 1 };
  }

  /** `isLate`: a later server says so. */
  met(step: number, isLate = false): void {
    if (this.role === null || this.role.met === step) return;
    if (isLate && this.outcome !== step) return;
    invariant(this.outcome === step, 'what came of the meeting is there');
    this.role = { ...this.role, step, met: step };
    this.outcome = null;
  }
}

class KilledRun extends GroupedRun {
  readonly store = storeOn(new DatabaseSync(':memory:'));
  readonly tabs = new Map<PeerId, Tab>();
  effects = 0;
  #killAt: number;
  readonly #random: Random;
  isDead = false;

  constructor(config: GroupedRun['config'], killAt: number, random: Random) {
    super(config);
    this.#killAt = killAt;
    this.#random = random;
    this.store.addRun(NAME, 'hash', '{}', JSON.stringify({ step: 0, shards: [] }), 0);
    this.perform = (effect) => {
      if (effect.type === 'publish' || effect.type === 'log') return true;
      if (this.effects++ === this.#killAt) this.isDead = true;
      if (!this.isDead) this.#store(effect);
      return !this.isDead;
    };
    this.answered = (to, message) => {
      const tab = this.#tab(to);
      tab.hear(this.config.run, to);
      const { train } = this.config.run;
      if (message.type === 'meet') tab.outcome = roundEnd(train, message.round * roundLength(train));
    };
  }

  #tab(peer: PeerId): Tab {
    const tab = this.tabs.get(peer) ?? new Tab();
    this.tabs.set(peer, tab);
    return tab;
  }

  /** It is back at once, and so are these; those who are not it asks for in vain. */
  comeBack(away: readonly PeerId[] = []): void {
    this.isDead = false;
    this.#killAt = -1;
    const { train } = this.config.run;
    const document = { file: { train } } as unknown as Parameters<typeof startState>[1]['document'];
    this.begin(startState(this.store, { name: NAME, document }, true));
    for (const [peer, tab] of this.tabs) {
      tab.hear(this.config.run, peer, below(this.#random, tab.coming.length + 1));
      if (away.includes(peer)) continue;
      const { groups, apart } = this.state;
      const isAwaited = awaitingGroup(groups, peer) !== null;
      const { generation, lastCommit, met } = greetingOf(groups, apart.run, peer);
      if (isAwaited && generation === tab.generation) {
        if (lastCommit !== null) tab.committed(train, lastCommit);
        if (met !== undefined) tab.met(met, true);
      }
      this.join(peer);
      const said: ResumedMessage = {
        ...{ type: 'resumed', generation: tab.generation, role: tab.role, handedOver: tab.handedOver },
      };
      if (isAwaited) this.tell({ type: 'donorSaid', peer, message: said });
    }
    for (const peer of away) this.tabs.delete(peer);
  }

  /** Under which the server expects those who come back. */
  plansAwaited(): Plan[] {
    const { phase } = at(this.state.groups, 0).coordinator;
    return phase.name === 'returning' ? phase.plans.map(({ plan }) => plan) : [];
  }

  #store(effect: DecisionEffect): void {
    switch (effect.type) {
      case 'send':
        this.#tab(effect.to).coming.push(effect.message);
        return;
      case 'storeEpoch': {
        const { epoch, generation, plan, reason } = effect;
        this.store.saveEpoch(NAME, epoch, generation, JSON.stringify(plan), reason);
        return;
      }
      case 'storeCommit':
        this.store.commitStep(NAME, effect.record, effect.ledger, JSON.stringify(effect.applied));
        return;
      case 'storeMeeting':
        this.store.addMeeting(NAME, effect.committedSteps, effect.bytesDirect, effect.bytesRelayed);
        return;
      case 'storeCheckpoint':
        this.store.saveCheckpoint(NAME, effect.step, JSON.stringify({ step: effect.step, shards: [] }));
        return;
      case 'rollBack':
        this.store.rollBack(NAME, effect.toStep);
        return;
      case 'storePaused':
        this.store.setOperatorPaused(NAME, effect.paused);
        return;
    }
  }
}

const NOWHERE = Number.MAX_SAFE_INTEGER;
const DONORS = ['a', 'b', 'c', 'd'];

/** One donor by turns to a checkpoint; then others come, the first goes, and the run parts there. */
function parted(killAt: number, random: Random): KilledRun {
  const run = new KilledRun(
    groupedConfig({ steps: 16, islands: islandsOf(2, 2), checkpointEverySteps: 4 }, 0),
    killAt,
    random,
  );
  const join = (donor: string): void => {
    if (run.isDead) return;
    run.tabs.set(peerId(donor), new Tab());
    run.join(donor);
  };
  join('a');
  while (!run.isDead && run.checkpoint < 4) if (!run.answerOne(random)) run.expire();
  join('b');
  for (let i = 0; i < 6 && !run.isDead; i++) run.answerOne(random);
  join('c');
  run.tabs.delete(peerId('a'));
  if (!run.isDead) run.gone('a');
  return run;
}

const begun = (killAt: number, random: Random, replicas: number): KilledRun =>
  begunBy(groupedConfig(ROUNDS, replicas), killAt, random);

function begunBy(config: GroupedRun['config'], killAt: number, random: Random): KilledRun {
  const run = new KilledRun(config, killAt, random);
  for (const donor of DONORS) {
    run.tabs.set(peerId(donor), new Tab());
    if (!run.isDead) run.join(donor);
  }
  return run;
}

const isOver = (run: KilledRun): boolean => wholeRun(run.state).coordinator.phase.name === 'finished';

function toItsEnd(run: KilledRun, random: Random): void {
  for (let tries = 0; tries < 50 && !run.isFinished && !run.isDead; tries++) {
    while (!run.isDead && run.answerOne(random));
    if (!run.isFinished && !run.isDead) run.expire();
  }
}

const effectsOf = (begin: typeof parted, random: Random): number => {
  const run = begin(NOWHERE, random);
  toItsEnd(run, random);
  return run.effects;
};

describe('the server of several groups is killed', () => {
  it('[IS53] [IS55] before any effect: all come back, no step is given up, none is counted twice', () => {
    const count = effectsOf((killAt, random) => begun(killAt, random, 0), seededRandom(0));
    expect(count).toBeGreaterThan(60);
    for (let killAt = 0; killAt < count; killAt++) {
      const random = seededRandom(killAt);
      const run = begun(killAt, random, killAt % 2);
      toItsEnd(run, random);
      const { size } = run.commits;
      run.comeBack();
      expect(wholeRun(run.state).coordinator.committedSteps, `at ${killAt}`).toBe(size);
      toItsEnd(run, random);
      expect([isOver(run), run.trace(/^back/)], `at ${killAt}`).toEqual([true, []]);
    }
  });

  it('[IS53] one donor stays away: its group goes on from its replicas, else all go back to the checkpoint', () => {
    const given = [0, 0];
    for (let killAt = 30; killAt < 70; killAt += 3) {
      const random = seededRandom(killAt);
      const replicas = killAt % 2;
      const run = begun(killAt, random, replicas);
      toItsEnd(run, random);
      if (!run.isDead) continue;
      run.comeBack([peerId(at(DONORS, killAt % 4))]);
      run.now += DEADLINES.returning.mostMs;
      toItsEnd(run, random);
      expect(isOver(run), `at ${killAt}`).toBe(true);
      given[replicas] = (given[replicas] ?? 0) + run.trace(/^back/).length;
    }
    expect(given[0]).toBeGreaterThan(0);
    expect(given[1]).toBe(0);
  });

  it('[IS53] before groups that parted from a checkpoint have met: what is decided is what is stored', () => {
    const whole = parted(NOWHERE, seededRandom(0));
    toItsEnd(whole, seededRandom(0));
    let apart = 0;
    for (let killAt = 0; killAt < whole.effects; killAt++) {
      const random = seededRandom(killAt);
      const run = parted(killAt, random);
      toItsEnd(run, random);
      const { size } = run.commits;
      if (run.groups.length > 1 && (run.store.run(NAME)?.metSteps ?? 0) < run.checkpoint) apart++;
      run.comeBack();
      expect(wholeRun(run.state).coordinator.committedSteps, `at ${killAt}`).toBe(size);
    }
    expect(apart).toBeGreaterThan(0);
  });

  it.each([
    ['all wait until a meeting is saved', { islands: islandsOf(2, 2), checkpointEverySteps: 1 }],
    ['rounds go on beside meetings', { islands: overlapping(islandsOf(2, 2)), checkpointEverySteps: 8 }],
  ])('[IS53] [IS83] %s: nobody goes on with what one group did as if it had been all of them', (_, run) => {
    const config = groupedConfig({ ...ROUNDS, ...run }, 1);
    const begin = (killAt: number, random: Random): KilledRun => begunBy(config, killAt, random);
    const count = effectsOf(begin, seededRandom(0));
    for (let killAt = 0; killAt < count; killAt++) {
      const random = seededRandom(killAt);
      const killed = begin(killAt, random);
      toItsEnd(killed, random);
      killed.comeBack();
      if (killed.groups.length === 1)
        for (const plan of killed.plansAwaited()) expect(plan.islands, `at ${killAt}`).toBe(undefined);
      toItsEnd(killed, random);
      expect(isOver(killed), `at ${killAt}`).toBe(true);
    }
  });
});
