/**
 * A donor's place among those who trained today, for who asks. By what the ledger has: steps that were given up count for
 * nobody. A day begins at midnight, UTC, or with this server's start.
 */
import type { PeerId } from '../../swarm/base.ts';
import type { TodayPlace } from '../../swarm/messages/leaderboard.ts';
import { keptWhile } from '../http/keptWhile.ts';
import type { ActiveRun } from '../run/run.ts';
import type { Store } from '../store/store.ts';

export class Today {
  readonly #run: Pick<ActiveRun, 'name' | 'committedSteps'>;
  readonly #day: () => string;
  readonly #earned: () => ReadonlyMap<PeerId, number>;
  #of: string;
  /** The day's first step. */
  #from: number;

  /** `day`: the date, for people. */
  constructor(run: Pick<ActiveRun, 'name' | 'committedSteps' | 'onChange'>, store: Store, day: () => string) {
    this.#run = run;
    this.#day = day;
    this.#of = day();
    this.#from = run.committedSteps;
    this.#earned = keptWhile(
      () => `${store.version()} ${this.#from}`,
      () => new Map(store.ledgerFrom(run.name, this.#from).map(({ peer, tokens }) => [peer, tokens])),
    );
    run.onChange(() => this.#look());
  }

  /** Who gave as much shares the place. */
  placeOf(peer: PeerId): TodayPlace {
    this.#look();
    const earned = this.#earned();
    const tokens = earned.get(peer) ?? 0;
    const all = [...earned.values()].filter((each) => each > 0);
    return { place: tokens > 0 ? 1 + all.filter((each) => each > tokens).length : null, donors: all.length, tokens };
  }

  #look(): void {
    const { committedSteps } = this.#run;
    const day = this.#day();
    // A roll-back may go to before this morning.
    this.#from = day === this.#of ? Math.min(this.#from, committedSteps) : committedSteps;
    this.#of = day;
  }
}
