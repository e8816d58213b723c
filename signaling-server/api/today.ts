/**
 * A donor's place among those who trained today, for who asks: by what everyone has earned since the day began, so that
 * steps that were given up count for nobody. A day begins at midnight, UTC, or with this server's start.
 */
import type { PeerId } from '../../swarm/base.ts';
import type { TodayPlace } from '../../swarm/messages/leaderboard.ts';
import { keptWhile } from '../http/keptWhile.ts';
import type { ActiveRun } from '../run/run.ts';
import type { Store } from '../store/store.ts';

/** Of a token: of equal work sums may differ by less. */
const SHARES = 1_000;

export class Today {
  readonly #run: Pick<ActiveRun, 'name' | 'committedSteps'>;
  readonly #day: () => string;
  readonly #credit: () => ReadonlyMap<PeerId, number>;
  readonly #earned: () => ReadonlyMap<PeerId, number>;
  #of: string;
  /** The day's first step, and what everyone had earned before it. */
  #from: number;
  #before: ReadonlyMap<PeerId, number>;

  /** `day`: the date, for people. */
  constructor(run: Pick<ActiveRun, 'name' | 'committedSteps' | 'onChange'>, store: Store, day: () => string) {
    this.#run = run;
    this.#day = day;
    this.#of = day();
    this.#from = run.committedSteps;
    this.#credit = () => new Map(store.ledger(run.name).map(({ peer, tokens }) => [peer, tokens]));
    this.#before = this.#credit();
    this.#earned = keptWhile(
      () => `${store.version()} ${this.#of} ${this.#from}`,
      () => this.#sinceBefore(),
      (earned) => earned.size + this.#before.size,
    );
    run.onChange(() => this.#look());
  }

  /** Who gave as much shares the place. */
  placeOf(peer: PeerId): TodayPlace {
    this.#look();
    const earned = this.#earned();
    const tokens = earned.get(peer) ?? 0;
    const all = [...earned.values()];
    return { place: tokens > 0 ? 1 + all.filter((each) => each > tokens).length : null, donors: all.length, tokens };
  }

  #sinceBefore(): ReadonlyMap<PeerId, number> {
    const earned = [...this.#credit()].flatMap(([peer, tokens]): [PeerId, number][] => {
      const since = Math.round((tokens - (this.#before.get(peer) ?? 0)) * SHARES) / SHARES;
      return since > 0 ? [[peer, since]] : [];
    });
    return new Map(earned);
  }

  #look(): void {
    const { committedSteps } = this.#run;
    const day = this.#day();
    // A roll-back may go to before this morning.
    if (day === this.#of && committedSteps >= this.#from) return;
    this.#of = day;
    this.#from = committedSteps;
    this.#before = this.#credit();
  }
}
