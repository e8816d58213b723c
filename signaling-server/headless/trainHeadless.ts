/**
 * A whole training with headless donors: server, donors one after the other, faults where a script wants them, to the
 * run's end or until it is interrupted; then nothing of it is left running. `swarm` and `demo` are this with different
 * words around it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Result, refusal, success } from '../../swarm/base.ts';
import type { Conviction } from '../../swarm/coordinator/events.ts';
import { type BrowserName, type DonorSpec, NO_LIMITS } from '../../swarm/limits.ts';
import type { ModelRequests, RequestAnswer } from '../answers/modelRequests.ts';
import type { DonorMemory } from '../donors/donorMemory.ts';
import { Chaos, type ChaosRecord } from '../faults/chaos.ts';
import type { ChaosEntry } from '../faults/chaosScript.ts';
import type { FaultCost } from '../faults/faultCosts.ts';
import { newestOf, Rehearsal } from '../faults/rehearsal.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import type { Log } from '../monitoring/log.ts';
import type { RefusedDonor } from '../run/refusedDonors.ts';
import { closeAll, type HeadlessDonor, openHeadlessDonor } from './headless.ts';
import { aborted } from './interrupt.ts';
import type { RunStatus, TrainingServer } from './trainingServer.ts';

/** A wait that lasts so long with every donor opened lasts for ever: a lost GPU comes back within 125 s, or never. */
const HOPELESS_MS = 150_000;

export interface Training {
  /** Closed at the end. */
  readonly server: TrainingServer;
  readonly donors: number;
  /** Of each donor in the order opened; one that is not in it gives what it has. */
  readonly specs?: readonly DonorSpec[];
  /** Which donors are not the operator's own, by number; null, or absent: all are. */
  readonly strangers?: ((donor: number) => boolean) | null;
  /** Of donors whose spec does not say. */
  readonly browser?: BrowserName;
  readonly log: Log;
  readonly interrupt: AbortSignal;
  readonly onOpened?: (opened: number) => void;
  readonly onChange?: (status: RunStatus) => void;
  readonly chaos?: readonly ChaosEntry[];
  /** Asked while it trains; the training is over when all are answered. */
  readonly requests?: ModelRequests | undefined;
  /** It ends with the first held-out loss that is no higher. */
  readonly untilLoss?: number;
  /** It ends after so many seconds. */
  readonly timeLimitSeconds?: number;
}

/** The run's end, seen from outside: what it ended with is in the store. */
export interface Trained {
  /** enough: its held-out loss was reached. */
  readonly outcome: 'finished' | 'interrupted' | 'enough' | 'timeOver';
  readonly seconds: number;
  readonly committedSteps: number;
  /** Of its requests. */
  readonly answers: readonly RequestAnswer[];
  readonly chaos: readonly ChaosRecord[];
  readonly faults: readonly FaultCost[];
  /** Of each donor that computed, by the number in which it was opened. */
  readonly memory: readonly (DonorMemory & { readonly donor: number })[];
  /** Who was thrown out for what it did, in that order. */
  readonly refused: readonly (Omit<RefusedDonor, 'peer'> & { readonly donor: number })[];
  /** Whose work came out differently where it was done again. */
  readonly convictions: readonly (Omit<Conviction, 'peer'> & { readonly donor: number })[];
}

export async function trainHeadless(training: Training): Promise<Result<Trained>> {
  const { server, interrupt, log, requests, untilLoss, timeLimitSeconds } = training;
  const beganMs = monotonicMs();
  const swarm = new Swarm(training);
  const result = (outcome: Trained['outcome'], answers: Trained['answers']): Result<Trained> =>
    success({ ...swarm.result(outcome, answers), seconds: (monotonicMs() - beganMs) / 1_000 });
  const limit = new AbortController();
  let answers: readonly RequestAnswer[] = [];
  const toItsEnd = async (): Promise<string | null> => {
    const problem = server.status().end === 'finished' ? null : await swarm.train();
    if (problem === null) {
      answers = (await requests?.finish(server)) ?? [];
      await until(server, ({ isAsking }) => !isAsking);
    }
    return problem;
  };
  try {
    const work = toItsEnd();
    const stopped = until(server, ({ end }) => end === 'stopped'); // by the operator's button
    const interrupted = Promise.race([aborted(interrupt), stopped]).then(() => ({ outcome: 'interrupted' as const }));
    const others: Promise<{ readonly outcome: Trained['outcome'] }>[] = [interrupted];
    if (untilLoss !== undefined) {
      const isLow = ({ snapshot }: RunStatus) => (snapshot.evaluationLoss ?? Infinity) <= untilLoss;
      others.push(until(server, isLow).then(() => ({ outcome: 'enough' })));
    }
    if (timeLimitSeconds !== undefined)
      others.push(sleep(1_000 * timeLimitSeconds, { outcome: 'timeOver' }, { signal: limit.signal }));
    const over = await Promise.race([work, ...others]);
    if (typeof over === 'string') return refusal(over);
    if (over === null) return result('finished', answers);
    if (over.outcome !== 'interrupted') answers = (await requests?.finish(server)) ?? [];
    log('info', 'stopping after this step (with islands: at the next meeting)');
    await server.stop();
    return result(over.outcome, answers);
  } finally {
    limit.abort();
    requests?.close();
    await server.close(); // first: that the donors now go is no news
    await swarm.close();
  }
}

/** Resolves once `holds` does. */
function until(server: TrainingServer, holds: (status: RunStatus) => boolean): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (!holds(server.status())) return;
      forget();
      resolve();
    };
    const forget = server.onChange(look);
    look();
  });
}

/** No donor computes: at a boundary where the next step is held, or without a plan. */
const stands = ({ snapshot: { phase }, announcedStep, end }: RunStatus): boolean =>
  end !== null || phase === 'waiting' || phase === 'paused' || (phase === 'preparing' && announcedStep !== null);

/** The donors of a training, in the order opened, and what happens to them. */
class Swarm {
  readonly #training: Training;
  readonly #donors: HeadlessDonor[] = [];
  readonly #memory = new Map<string, DonorMemory>();
  /** By peer: a connection is refused once. */
  readonly #refused = new Map<string, RefusedDonor>();
  readonly #convictions = new Map<string, Conviction>();
  readonly #rehearsal: Rehearsal;
  readonly #chaos: Chaos;
  #living = 0;
  /** Donors are opened one at a time. */
  #opening: Promise<unknown> = Promise.resolve();
  #isOpening = true;
  #serverKills = 0;
  /** Resolves when a server that was killed serves again, or never will. */
  #serverBack: Promise<unknown> = Promise.resolve();
  #lastStepHeld = false;
  #isMeasuring = false;
  #hopeless: NodeJS.Timeout | undefined;
  #closed = false;
  #giveUp: (problem: string) => void = () => {};

  constructor(training: Training) {
    this.#training = training;
    const { server, chaos = [] } = training;
    this.#rehearsal = new Rehearsal(this.#donors, {
      join: (onAdmitted) => this.#join(onAdmitted),
      killServer: () => {
        this.#serverKills++;
        const back = this.#killServer();
        this.#serverBack = back;
        return back;
      },
    });
    this.#chaos = new Chaos(chaos, this.#rehearsal, (held) => {
      this.#lastStepHeld = held;
      this.#hold();
    });
    server.rehearsals?.attach(this.#rehearsal);
    server.onChange(() => this.#changed());
  }

  /** Null when the run is finished, else why it never will be. */
  train(): Promise<string | null> {
    const { server, donors, interrupt } = this.#training;
    return new Promise((resolve, reject) => {
      this.#giveUp = resolve;
      const open = async (): Promise<void> => {
        for (let number = 0; number < donors && !interrupt.aborted; number++) {
          const opened = await this.#open();
          if (!opened.ok) return resolve(opened.reason);
        }
      };
      this.#opening = open()
        .catch(reject)
        .then(() => this.#opened());
      void until(server, ({ end }) => end === 'finished').then(() => resolve(null));
      void until(server, ({ end }) => end === 'diverged').then(() => resolve(server.status().snapshot.sentence));
    });
  }

  result(outcome: Trained['outcome'], answers: Trained['answers']): Omit<Trained, 'seconds'> {
    const { server } = this.#training;
    const memory = this.#donors.flatMap(({ peers }, donor) => {
      const ofDonor = [...peers].flatMap((peer) => this.#memory.get(peer) ?? []);
      if (ofDonor.length === 0) return [];
      const most = (field: keyof DonorMemory): number => Math.max(...ofDonor.map((each) => each[field]));
      return {
        ...{ donor, predictedBytes: most('predictedBytes') },
        ...{ peakBytes: most('peakBytes'), hostBytes: most('hostBytes') },
      };
    });
    const { committedSteps } = server.status().snapshot;
    const byNumber = <One extends { readonly peer: string }>(all: ReadonlyMap<string, One>) =>
      [...all.values()].flatMap(({ peer, ...one }) => {
        const donor = this.#donors.findIndex(({ peers }) => peers.has(peer));
        return donor === -1 ? [] : { donor, ...one };
      });
    const [refused, convictions] = [byNumber(this.#refused), byNumber(this.#convictions)];
    const faults = [...this.#chaos.costs(), ...(server.rehearsals?.costs() ?? [])];
    return { outcome, committedSteps, answers, chaos: this.#chaos.records(), faults, memory, refused, convictions };
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#hopeless);
    await closeAll(this.#donors);
  }

  #changed(): void {
    const status = this.#training.server.status();
    for (const { peer, ...memory } of status.memory) this.#memory.set(peer, memory);
    for (const one of status.refused) this.#refused.set(one.peer, one);
    for (const one of status.convictions) this.#convictions.set(one.peer, one);
    this.#rehearsal.see(status);
    if (status.end !== null) this.#chaos.end();
    else if (status.announcedStep !== null) {
      this.#chaos.stepAnnounced(status.announcedStep);
      const { server, requests } = this.#training;
      requests?.stepAnnounced(server, status.announcedStep);
    }
    this.#training.onChange?.(status);
    this.#considerWaiting();
  }

  /** Whoever is missing when all are opened will not come, unless a fault took it away: then it is given time. */
  #considerWaiting(): void {
    const { lacksPlan, snapshot } = this.#training.server.status();
    const { phase, sentence } = snapshot;
    if (lacksPlan && !this.#rehearsal.hasBegun) this.#giveUp(sentence);
    if (phase === 'waiting' && !this.#isOpening && !this.#closed) {
      const giveUp = () => this.#giveUp(this.#training.server.status().snapshot.sentence);
      this.#hopeless ??= setTimeout(giveUp, HOPELESS_MS);
    } else {
      clearTimeout(this.#hopeless);
      this.#hopeless = undefined;
    }
  }

  #opened(): void {
    this.#isOpening = false;
    this.#considerWaiting();
  }

  async #open(): Promise<Result<HeadlessDonor>> {
    const { server, log, specs, strangers, browser, onOpened } = this.#training;
    const number = this.#donors.length;
    const spec = specs?.[number];
    const ownUrl = server.donorUrl(number);
    const url = strangers?.(number) ? `${new URL(ownUrl).origin}/#` : ownUrl;
    const opened = await openHeadlessDonor(url, number, log, {
      ...{ browser: spec?.browser ?? browser ?? 'chromium', limits: spec?.limits ?? NO_LIMITS },
    });
    if (!opened.ok) return opened;
    if (this.#closed) {
      await opened.value.close();
      return refusal('the training is over');
    }
    this.#donors.push(opened.value);
    this.#living++;
    void opened.value.ended.then((reason) => {
      log('debug', `donor ${number}: ${reason}`);
      this.#living--;
      if (this.#living === 0) this.#giveUp(`every donor is gone, the last one because ${reason}`);
    });
    onOpened?.(this.#donors.length);
    return opened;
  }

  /** One that came while the server was away comes again. */
  async #openPersistently(): Promise<Result<HeadlessDonor>> {
    for (;;) {
      await this.#serverBack; // it may be away already
      const kills = this.#serverKills;
      const opened = await this.#open();
      if (opened.ok || kills === this.#serverKills || this.#closed) return opened;
    }
  }

  /** All share this machine: who computes would measure the others' work with its own. */
  async #whileOthersStand<T>(work: () => Promise<T>): Promise<T> {
    this.#isMeasuring = true;
    this.#hold();
    await until(this.#training.server, stands);
    try {
      return await work();
    } finally {
      this.#isMeasuring = false;
      this.#hold();
    }
  }

  #hold(): void {
    this.#training.server.hold(this.#isMeasuring ? 'everyStep' : this.#lastStepHeld ? 'lastStep' : 'none');
  }

  async #killServer(): Promise<boolean> {
    const { server } = this.#training;
    const restarted = (await server.killAndRestart?.(this.#living)) ?? refusal('it is no process of its own');
    if (!restarted.ok) this.#giveUp(`the server did not come back: ${restarted.reason}`);
    return restarted.ok;
  }

  async #join(onAdmitted: (peer: string | null) => void): Promise<boolean> {
    const opening = this.#opening.then(() => {
      this.#isOpening = true;
      return this.#whileOthersStand(() => this.#openPersistently());
    });
    this.#opening = opening;
    const opened = await opening.catch(() => null);
    this.#opened();
    onAdmitted(opened?.ok ? newestOf(opened.value.peers) : null);
    return opened?.ok === true && opened.value.computes();
  }
}
