/** How long each donor is expected to stay, by those who came before; the server's own donors stay as long as it does. */
import { expectedSeconds, type Stay } from '../../swarm/autoplan/sessions.ts';
import type { PeerId } from '../../swarm/base.ts';
import type { Connection } from '../donors/connectedDonors.ts';
import { hourOf, STAYS_KEPT } from '../store/stayStore.ts';
import type { Store } from '../store/store.ts';
import type { DonorEvent, RunObserver } from './runObserver.ts';

interface Visit {
  readonly startedAtMs: number;
  readonly isNew: boolean;
}

type Sessions = Pick<Store, 'stays' | 'saveStay' | 'profile'>;

export class DonorSessions implements RunObserver {
  readonly #store: Sessions;
  readonly #run: string;
  readonly #nowMs: () => number;
  readonly #here = new Map<PeerId, Visit>();
  /** Of before, and of this server's: to read them anew for each who comes would take longer than all else. */
  #known: Stay[];

  constructor(store: Sessions, run: string, nowMs: () => number) {
    [this.#store, this.#run, this.#nowMs] = [store, run, nowMs];
    this.#known = store.stays();
  }

  event(event: DonorEvent): void {
    if (event.type === 'joined') this.#came(event.connection);
    else if (event.type === 'gone') this.#left(event.peer, true);
  }

  close(): void {
    for (const peer of [...this.#here.keys()]) this.#left(peer, false);
  }

  /** Undefined: nothing is known of it. */
  expectedOf(peer: PeerId): number | undefined {
    const visit = this.#here.get(peer);
    if (visit === undefined) return undefined;
    const stillHere = [...this.#here].flatMap(([one, other]) => (one === peer ? [] : this.#sessionOf(other, false)));
    return expectedSeconds([...this.#known, ...stillHere], { hour: hourOf(visit.startedAtMs), isNew: visit.isNew });
  }

  #came({ peer, donor, isOwn }: Connection): void {
    if (isOwn || this.#here.has(peer)) return;
    const isNew = donor === null || this.#store.profile(this.#run, donor) === null;
    this.#here.set(peer, { startedAtMs: this.#nowMs(), isNew });
  }

  #left(peer: PeerId, hasEnded: boolean): void {
    const visit = this.#here.get(peer);
    if (visit === undefined) return;
    this.#here.delete(peer);
    const stay = this.#sessionOf(visit, hasEnded);
    this.#known = [...this.#known, stay].slice(-STAYS_KEPT);
    this.#store.saveStay(visit.startedAtMs, stay);
  }

  #sessionOf({ startedAtMs, isNew }: Visit, hasEnded: boolean): Stay {
    return { seconds: (this.#nowMs() - startedAtMs) / 1_000, hasEnded, isNew, hour: hourOf(startedAtMs) };
  }
}
