/**
 * What an operator rehearses on the running swarm: one fault at a time, bounded, and only on donors that the server's
 * own command opened. A stranger's tab obeys no such word.
 */
import { type Result, refusal, success } from '../../swarm/base.ts';
import type { RehearsalRow, RehearsalsShown, RehearsalWish } from '../../swarm/messages/rehearsal.ts';
import type { ChaosEntry } from '../faults/chaosScript.ts';
import type { FaultCost } from '../faults/faultCosts.ts';
import type { Rehearsal } from '../faults/rehearsal.ts';
import type { ActiveRun } from '../run/run.ts';

/** Newest that are shown. */
const ROWS = 50;
/** Whatever has not shown by then, beside the time that a fault lasts, is not waited for. */
const WATCHED_MS = 60_000;
/** Who is slow stays so, and need not be noticed. */
const SLOW_WATCHED_MS = 20_000;
/** After what was over by itself: a connection that it broke shows by then. */
const AFTERWARDS_MS = 5_000;

export const NO_OWN_DONORS =
  'Only donors that this server opened itself can be made to fail on purpose, and it opened none: start it with --donors 4.';
const NOT_ITS_OWN = 'Only donors that this server opened itself can be made to fail on purpose.';
/** A run that trains is between two plans now and then: a fault may come there as well. */
const STANDING: readonly ActiveRun['phase'][] = ['waiting', 'paused', 'finished', 'diverged', 'stopped'];

interface Rehearsed {
  readonly id: number;
  readonly wish: RehearsalWish;
  readonly entry: ChaosEntry;
  readonly sinceMs: number;
  state: RehearsalRow['state'];
  /** As it is known; kept when it is over. */
  cost: FaultCost;
}

type RehearsedRun = Pick<ActiveRun, 'committedSteps' | 'phase' | 'tellWatchers'> & {
  donors(): readonly { readonly peer: string }[];
};

export class Rehearsals {
  readonly #run: RehearsedRun;
  #rehearsal: Rehearsal | null = null;
  #rehearsed: Rehearsed[] = [];
  #nextId = 0;

  constructor(run: RehearsedRun) {
    this.#run = run;
  }

  /** From now on there are donors that it may be done to. */
  attach(rehearsal: Rehearsal): void {
    this.#rehearsal = rehearsal;
    this.#run.tellWatchers();
  }

  shown(): RehearsalsShown {
    this.#settle();
    const rows = this.#rehearsed.map(
      ({ id, wish, entry, state, cost }): RehearsalRow => ({
        ...{ id, wish, step: entry.step, state },
        ...cost,
      }),
    );
    return { donors: this.#own().map(({ peer }) => peer), rows };
  }

  /** Of those that took effect, for the report. */
  costs(): FaultCost[] {
    this.#settle();
    return this.#rehearsed.filter(({ state }) => state === 'fired' || state === 'over').map(({ cost }) => cost);
  }

  begin(wish: RehearsalWish): Result<null> {
    this.#settle();
    const rehearsal = this.#rehearsal;
    const own = this.#own();
    if (rehearsal === null || own.length === 0) return refusal(NO_OWN_DONORS);
    const donor = own.find(({ peer }) => peer === wish.peer);
    if (donor === undefined) return refusal(NOT_ITS_OWN);
    if (this.#rehearsed.some(({ state }) => state === 'begins' || state === 'fired'))
      return refusal('Another fault is under way: one at a time.');
    if (STANDING.includes(this.#run.phase))
      return refusal('The run does no step now: a fault is rehearsed while it trains.');
    void this.#begin(rehearsal, wish, entryOf(wish, donor.number, this.#run.committedSteps));
    return success(null);
  }

  async #begin(rehearsal: Rehearsal, wish: RehearsalWish, entry: ChaosEntry): Promise<void> {
    const rehearsed: Rehearsed = {
      ...{ id: this.#nextId++, wish, entry, sinceMs: rehearsal.nowMs(), state: 'begins' },
      cost: { entry: entry.text, detectedSeconds: null, resumedSeconds: null, stepsGivenUp: 0, bytesMoved: 0 },
    };
    this.#rehearsed = [...this.#rehearsed, rehearsed].slice(-ROWS);
    for (const ms of [lastsMs(wish), watchedMs(wish)]) setTimeout(() => this.#run.tellWatchers(), ms).unref();
    const took = await rehearsal.begin(entry);
    if (rehearsed.state === 'begins') rehearsed.state = took ? 'fired' : 'failed';
    if (!took) rehearsal.forget(entry);
    this.#run.tellWatchers();
  }

  /** Those that are here, with their numbers in the order opened. */
  #own(): { readonly peer: string; readonly number: number }[] {
    const here = new Set<string>(this.#run.donors().map(({ peer }) => peer));
    const peers = this.#rehearsal?.peers() ?? [];
    return peers.flatMap((peer, number) => (peer !== null && here.has(peer) ? { peer, number } : []));
  }

  #settle(): void {
    const rehearsal = this.#rehearsal;
    if (rehearsal === null) return;
    for (const rehearsed of this.#rehearsed) {
      if (rehearsed.state === 'over' || rehearsed.state === 'failed') continue;
      rehearsed.cost = rehearsal.costs([rehearsed.entry])[0] ?? rehearsed.cost;
      if (!isOver(rehearsed, rehearsal.nowMs())) continue;
      rehearsed.state = rehearsed.state === 'begins' ? 'failed' : 'over';
      rehearsal.forget(rehearsed.entry);
    }
  }
}

/** As a script of `--chaos` says it. */
function entryOf(wish: RehearsalWish, donor: number, step: number): ChaosEntry {
  const at = `${wish.kind}:${donor}@${step}`;
  switch (wish.kind) {
    case 'freeze':
    case 'cut':
      return { kind: wish.kind, donor, step, seconds: wish.seconds, text: `${at}+${wish.seconds}s` };
    case 'slow':
      return { kind: wish.kind, donor, step, factor: wish.factor, text: `${at}*${wish.factor}` };
    default:
      return { kind: wish.kind, donor, step, text: at };
  }
}

/** With what may come of it afterwards; 0: it takes effect once, or from then on. */
const lastsMs = (wish: RehearsalWish): number => ('seconds' in wish ? wish.seconds * 1_000 + AFTERWARDS_MS : 0);
const watchedMs = (wish: RehearsalWish): number =>
  wish.kind === 'slow' ? SLOW_WATCHED_MS : WATCHED_MS + lastsMs(wish);

/** The next step stands committed after the run knew, or after nothing showed any more. */
function isOver({ wish, sinceMs, state, cost }: Rehearsed, nowMs: number): boolean {
  const passedMs = nowMs - sinceMs;
  if (passedMs >= watchedMs(wish)) return true;
  if (state === 'begins' || cost.resumedSeconds === null) return false;
  if ('seconds' in wish && passedMs < wish.seconds * 1_000) return false;
  return cost.detectedSeconds !== null || ('seconds' in wish && passedMs >= lastsMs(wish));
}
