/**
 * The runs of a site at one process: the one that it began with, whose store has what is the site's, and those that train
 * beside it, of which the site's store has the names. Whoever leads fewest takes a free one first.
 */
import { type Result, refusal, success } from '../../swarm/base.ts';
import type { NamedCredit } from '../../swarm/messages/leaderboard.ts';
import { neededMost, type RunWant, USUAL_DONOR_BYTES } from '../../swarm/messages/neededMost.ts';
import { stepTargets } from '../../swarm/run/data.ts';
import type { KeptLosses } from '../donors/keptLosses.ts';
import type { WrongInvitations } from '../donors/wrongInvitations.ts';
import { calledFor, isOfTheSite } from '../http/calledFor.ts';
import type { Log } from '../monitoring/log.ts';
import type { RunRole } from '../monitoring/metrics.ts';
import { addressKey } from '../operator/controls.ts';
import type { SiteRuns } from '../run/siteRuns.ts';
import type { Server } from '../server.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import { storedDocument } from '../store/runDocument.ts';
import { stepsOf } from '../store/runTime.ts';
import type { Store } from '../store/store.ts';
import type { Exchange } from './exchange.ts';
import { FIRST_KEY } from './lease.ts';
import { endsWithin } from './patience.ts';
import { END_LIMIT_MS, Room } from './room.ts';
import type { Site, SiteData } from './site.ts';
import { siteInvitations, siteLosses } from './siteAddresses.ts';
import { moveRun, runIdOf, storeOfRun, storeOfSite } from './siteRun.ts';

/** For each run that a process leads, so long it leaves a free one to others: more than they need to see it. */
const RESTRAINT_MS = 1_500;
const MOST_RESTRAINT_MS = 3_000;

/** Between the run's id and what is secret of a token. */
const END_OF_ID = '.';

/** A run that this process leads from now on. */
export interface RunToOpen {
  /** Null: which one the site trains first is whoever opens it to say. */
  readonly name: string | null;
  readonly data: DataDirectory;
  readonly runs: SiteRuns;
}

interface RoomsOptions {
  readonly site: Site;
  readonly exchange: Exchange;
  readonly log: Log;
  open(run: RunToOpen): Promise<Result<Server>>;
  /** The first run's. */
  onRole(server: Server | null): void;
  onLook(leader: string | null): void;
}

interface Beside {
  readonly name: string;
  readonly room: Room;
  readonly site: SiteData;
}

export class Rooms {
  readonly first: Room;
  readonly #options: RoomsOptions;
  /** By id; null: it is about to be opened. */
  readonly #beside = new Map<string, Beside | null>();
  readonly #losses: KeptLosses;
  readonly #wrongInvitations: WrongInvitations;
  #opening: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: RoomsOptions) {
    const { site, exchange, log, open, onRole } = options;
    this.#options = options;
    this.#losses = siteLosses(site.addresses.losses);
    this.#wrongInvitations = siteInvitations(site.addresses.invitations);
    const data = { ...site.data, store: storeOfSite(site.data.store, (run) => this.#storeOf(run)) };
    this.first = new Room({
      ...{ id: null, site, leases: site.leases, key: FIRST_KEY, exchange, log, onRole },
      open: () => open({ name: null, data, runs: this.#runs(null) }),
      onLook: (leader) => {
        options.onLook(leader);
        this.#follow();
      },
      restraintMs: () => this.#restraintMs(null),
    });
  }

  /** Looks who leads what, and leads what is free, from now on. */
  begin(): void {
    this.first.begin();
  }

  /** Names of the runs that this process leads. */
  get led(): readonly string[] {
    return this.#rooms().flatMap(({ server }) => server?.run.name ?? []);
  }

  /** That of this id; null: there is none here yet. Undefined: the first. */
  of(id: string | undefined): Room | null {
    return id === undefined ? this.first : (this.#beside.get(id)?.room ?? null);
  }

  /** That of this name, else null. */
  named(name: string): Room | null {
    return name === this.first.want?.run ? this.first : (this.#beside.get(runIdOf(name))?.room ?? null);
  }

  /** Where a donor goes that asks for a run of this name, or for none; null: that run is about to be opened here. */
  forDonor(name: string | undefined): Room | null {
    const asked = name === undefined ? null : this.named(name);
    if (asked === null && name !== undefined && this.#isComing(name)) return null;
    if (asked !== null || this.#beside.size === 0) return asked ?? this.first;
    const needed = neededMost(this.wants(), USUAL_DONOR_BYTES);
    return (needed === null ? null : this.named(needed)) ?? this.first;
  }

  /**
   * Whose a call is, by its address and its token; null: that run is about to be opened here. One that names no run of the
   * site is the first one's, who answers what is for any run and refuses the rest.
   */
  forCall(url: string, authorization: string): Room | null {
    const { path, run } = calledFor(url);
    if (isOfTheSite(path)) return this.first;
    const [id, secret] = authorization.replace(/^Bearer /, '').split(END_OF_ID, 2);
    const ofToken = secret === undefined ? null : this.of(id);
    const asked = ofToken ?? (run === undefined ? null : this.named(run));
    return asked ?? (run !== undefined && this.#isComing(run) ? null : this.first);
  }

  /** It trains beside the first one, and this process has not opened it yet. */
  #isComing(run: string): boolean {
    return this.#beside.get(runIdOf(run)) === null || this.#options.site.data.store.besideRuns().includes(run);
  }

  wants(): readonly RunWant[] {
    return this.#rooms().flatMap(({ want }) => want ?? []);
  }

  /** What this process is to each run that it knows. */
  get roles(): readonly RunRole[] {
    const { store } = this.#options.site.data;
    const roleOf = (name: string, { server, isLed, donors }: Room): RunRole => ({
      ...{ name, isLeading: server !== null, isLed, donors: donors.count },
    });
    const first = this.first.want?.run ?? store.activeRun()?.name ?? '';
    const beside = [...this.#beside.values()].flatMap((one) => (one === null ? [] : roleOf(one.name, one.room)));
    return [roleOf(first, this.first), ...beside];
  }

  /** Nothing is known of who leads. */
  get isNatsAway(): boolean {
    return !this.first.hearsNats;
  }

  /** The steps in progress are done and saved first, where it leads. */
  async stop(): Promise<void> {
    await this.#opensNoMore();
    await Promise.all(this.#rooms().map((room) => room.stop()));
    await this.#closeData();
  }

  async close(): Promise<void> {
    await this.#opensNoMore();
    await Promise.all(this.#rooms().map((room) => room.close()));
    await this.#closeData();
  }

  /** NATS may be away: what is about to be opened is not waited for any longer, and closes when it is. */
  async #opensNoMore(): Promise<void> {
    this.#isClosed = true;
    await endsWithin(this.#opening, END_LIMIT_MS);
  }

  #rooms(): readonly Room[] {
    return [this.first, ...[...this.#beside.values()].flatMap((beside) => beside?.room ?? [])];
  }

  async #closeData(): Promise<void> {
    const open = [...this.#beside.values()];
    this.#beside.clear();
    await Promise.all(open.map((beside) => beside?.site.close()));
  }

  /** Opens what the site's store has begun since. */
  #follow(): void {
    if (this.#isClosed) return;
    for (const name of this.#options.site.data.store.besideRuns()) {
      const id = runIdOf(name);
      if (this.#beside.has(id)) continue;
      this.#beside.set(id, null);
      this.#opening = this.#opening.then(() => this.#openBeside(name, id));
    }
  }

  async #openBeside(name: string, id: string): Promise<void> {
    const { site, exchange, log, open } = this.#options;
    const opened = this.#isClosed ? refusal('the site is closed') : await site.openRun(name);
    if (!opened.ok) {
      this.#beside.delete(id); // the next look tries again
      return log('debug', opened.reason);
    }
    const ofRun = opened.value;
    if (this.#isClosed) return ofRun.close();
    const data = { ...ofRun.data, store: storeOfRun(ofRun.data.store, site.data.store) };
    const room = new Room({
      ...{ id, site: ofRun, leases: site.leases, key: `${FIRST_KEY}.${id}`, exchange, log },
      open: async () => {
        const moved = await moveRun(site.data, ofRun.data, name);
        return moved.ok ? open({ name, data, runs: this.#runs(id) }) : moved;
      },
      onRole: () => {},
      onLook: () => {},
      restraintMs: () => this.#restraintMs(id),
    });
    this.#beside.set(id, { name, room, site: ofRun });
    room.begin();
  }

  #restraintMs(id: string | null): number {
    const others = this.#rooms().filter((room) => room.id !== id && room.isHeld).length;
    return this.#options.exchange.others === 0 ? 0 : Math.min(MOST_RESTRAINT_MS, others * RESTRAINT_MS);
  }

  /** The store that a run has by itself; null: the site's. */
  #storeOf(run: string): Store | null {
    const store = this.#beside.get(runIdOf(run))?.site.data.store;
    return store !== undefined && store.run(run) !== null ? store : null;
  }

  #runs(id: string | null): SiteRuns {
    return {
      isBeside: id !== null,
      losses: this.#losses,
      wrongInvitations: this.#wrongInvitations,
      tokenPrefix: id === null ? '' : `${id}${END_OF_ID}`,
      wants: () => this.wants(),
      credit: () => this.#credit(),
      creditVersion: () =>
        this.#active()
          .map(({ name, store }) => `${name} ${store.version()}`)
          .join(),
      startBeside: (run) => this.#startBeside(run),
    };
  }

  /** Every active run, with the store that has its credit. */
  #active(): readonly { readonly name: string; readonly store: Store }[] {
    const { store } = this.#options.site.data;
    const first = store.activeRun();
    const beside = store.besideRuns().map((name) => ({ name, store: this.#storeOf(name) ?? store }));
    return [...(first === null ? [] : [{ name: first.name, store }]), ...beside];
  }

  #credit(): ReturnType<SiteRuns['credit']> {
    const { store: names } = this.#options.site.data;
    const credits = new Map<string, NamedCredit>();
    let tokens = 0;
    for (const { name, store } of this.#active()) {
      const { file, data } = storedDocument(store, name);
      tokens += store.committedSteps(name) * stepTargets(data, file.train);
      for (const { id, tokens: given } of store.memberCredit(name)) {
        const member = names.member(id); // null: the name was given up
        if (member !== null) credits.set(id, { ...member, tokens: given + (credits.get(id)?.tokens ?? 0) });
      }
    }
    return { credits: [...credits.values()], tokens };
  }

  #startBeside(run: string): Result<null> {
    const { store } = this.#options.site.data;
    const row = store.run(run);
    const beside = store.besideRuns();
    if (row === null) return refusal('there is no such run');
    if (row.active || beside.includes(run)) return refusal('this run is active already');
    if (store.committedSteps(run) >= stepsOf(store, run, storedDocument(store, run).file.train))
      return refusal('this run is finished: there is nothing left to train');
    addressKey(store, ''); // the run's own store begins with it
    store.saveQueue(store.queue().filter((each) => each !== run));
    store.saveBesideRuns([...beside, run]);
    return success(null);
  }
}
