/**
 * One run of a site, at one process: who leads it, the donors of it whose sockets end here, and, while this process leads it
 * itself, the server that has it open. Each run has a key, a journal and a fence of its own.
 */
import type { KV } from '@nats-io/kv';
import { type Result, refusal } from '../../swarm/base.ts';
import type { RunWant } from '../../swarm/messages/neededMost.ts';
import { messageOf } from '../files/errorWords.ts';
import type { Log } from '../monitoring/log.ts';
import type { Server } from '../server.ts';
import { PipedWire } from './donorPipe.ts';
import type { Exchange } from './exchange.ts';
import { HeldDonors } from './heldDonors.ts';
import { Lease } from './lease.ts';
import { encodeOpening, type Opening } from './opening.ts';
import { USED } from './ownToken.ts';
import { endsWithin } from './patience.ts';
import type { Pipe } from './pipe.ts';
import { SharedTexts } from './sharedTexts.ts';
import type { SiteData } from './site.ts';
import { type Client, Tunnel } from './tunnel.ts';
import { SILENT } from './writer.ts';

/** A process that could not open the run leaves it to others for so long. */
const PAUSE_MS = 5_000;
/** Nothing that waits for NATS holds up an end for longer. */
export const END_LIMIT_MS = 2_000;
/** That one run takes, however many processes there are: as many as the one that leads it bears. */
export const SITE_DONORS = 4_000;
/** As long as what is not kept (writer.ts): a connection that breaks and is there again stops nothing, and ends no feed. */
const CUT_OFF_MS = 2_000;

export interface RoomOptions {
  /** Names it in what processes say to each other; null: the run that the site began with. */
  readonly id: string | null;
  readonly site: Pick<SiteData, 'lead' | 'onFenced' | 'cutOff' | 'keepLast'>;
  readonly leases: KV;
  /** Of the lease. */
  readonly key: string;
  readonly exchange: Exchange;
  readonly log: Log;
  /** Opens the run, with this process's replica as it stands. */
  open(): Promise<Result<Server>>;
  /** It leads from now on with this server, or no more. */
  onRole(server: Server | null): void;
  /** After each look at who leads. */
  onLook(leader: string | null): void;
  /** So long a free key is left to others. */
  restraintMs(): number;
}

export class Room {
  readonly id: string | null;
  readonly donors: HeldDonors;
  readonly #options: RoomOptions;
  readonly #lease: Lease;
  readonly #texts: SharedTexts;
  /** While it leads: of donors, and the gateways at which their WebSockets end, this process among them. */
  readonly #donorPipes = new Map<Pipe, string>();
  readonly #ignoreConnection: () => void;
  #cutOffTimer: NodeJS.Timeout | undefined;
  #isCutOff = false;
  /** Ways that end when this process is cut off. */
  readonly #feeds = new Set<Tunnel>();
  #server: Server | null = null;
  /** Rises with each time that it leads or ceases to. */
  #term = 0;
  #leader: string | null = null;
  #want: RunWant | null = null;
  #opening: Promise<void> = Promise.resolve();

  constructor(options: RoomOptions) {
    const { id, site, leases, key, exchange, onLook, restraintMs } = options;
    this.id = id;
    this.#options = options;
    this.#texts = new SharedTexts((process) =>
      exchange.open(process, encodeOpening({ what: 'texts', ...this.#named })),
    );
    this.donors = new HeldDonors(exchange, id);
    this.#ignoreConnection = exchange.onConnection((isConnected) => this.#connection(isConnected));
    site.onFenced(() => this.#ceased('another process leads it'));
    this.#lease = new Lease(leases, key, exchange.process, {
      won: () => {
        const term = ++this.#term;
        this.#opening = this.#lead(term);
      },
      lost: () => this.#ceased('its lease ran out, and another process has it'),
      leads: (leader, want) => {
        this.#leader = leader;
        this.#want = want ?? this.#want;
        this.donors.follow(leader);
        onLook(leader);
      },
      want: () => this.#server?.want() ?? null,
      restraintMs,
    });
  }

  /** Looks who leads from now on, and leads where nobody does. */
  begin(): void {
    this.#lease.begin();
  }

  /** While this process leads it. */
  get server(): Server | null {
    return this.#server;
  }

  /** Some process leads it, and can be talked to. */
  get isLed(): boolean {
    return this.#leader !== null && this.hearsNats;
  }

  get hearsNats(): boolean {
    return this.#options.exchange.isConnected && this.#lease.isAnswered;
  }

  /** NATS has been away for a while, and with it every other process. */
  get isCutOff(): boolean {
    return this.#isCutOff;
  }

  /** As whoever leads said last; null: nothing was heard yet. */
  get want(): RunWant | null {
    return this.#server?.want() ?? this.#want;
  }

  /** This process leads it, or is about to. */
  get isHeld(): boolean {
    return this.#lease.isHeld;
  }

  /** Where it leads: the run again, from what is kept, as when another one was chosen. */
  async reopen(): Promise<void> {
    const server = this.#server;
    if (server === null) return;
    const term = ++this.#term;
    await server.stop().catch((error: unknown) => this.#options.log('warn', `a run ended badly: ${error}`));
    if (this.#server === server) this.#server = null;
    this.#options.onRole(null);
    if (term === this.#term) await this.#openRun(term);
  }

  /** The step in progress is done and saved first, where it leads. */
  async stop(): Promise<void> {
    await this.#server?.stop();
    await this.close();
  }

  /** Others go on at once, and no step is given up. */
  async close(): Promise<void> {
    await endsWithin(this.#opening, END_LIMIT_MS);
    const server = this.#server;
    this.#term++;
    this.#server = null;
    this.#ignoreConnection();
    clearTimeout(this.#cutOffTimer);
    if (server !== null) {
      this.#leaveDonors();
      await endsWithin(server.close(), END_LIMIT_MS); // a request may wait for what is not kept
      await this.#options.site.keepLast();
    }
    await endsWithin(this.#lease.close(), END_LIMIT_MS);
    this.donors.close();
  }

  /** A way to the process that leads it; null: there is none. A feed's ends where it stands still: whoever watches is to see that. */
  tunnel(client: Client, isFeed = false): Tunnel | null {
    if (this.#leader === null) return null;
    const opening = encodeOpening({ what: 'request', ...client, ...this.#named });
    const tunnel = new Tunnel(this.#options.exchange.open(this.#leader, opening), client);
    if (isFeed) {
      this.#feeds.add(tunnel);
      tunnel.on('close', () => this.#feeds.delete(tunnel));
    }
    return tunnel;
  }

  /** Another process's pipe, to the server here or to donors; false: that is not here. */
  accepted(pipe: Pipe, opening: Opening, process: string): boolean {
    const server = this.#server;
    if (opening.what === 'texts') return this.donors.readTexts(pipe, process);
    if (opening.what === 'relay') return this.donors.readRelayed(pipe, opening.socket);
    if (server === null) return false;
    if (opening.what === 'request') {
      server.http.emit('connection', new Tunnel(pipe, opening));
      return true;
    }
    if (opening.what === 'token') {
      const forget = server.alsoOpenedBy(opening.token, () => pipe.send(USED, new Uint8Array(0)));
      pipe.read({ onMessage: (_kind, _message, taken) => taken(), onClosed: forget });
      return true;
    }
    const { exchange } = this.#options;
    const wire = new PipedWire(pipe, (text) => this.#texts.sayTo(process, text));
    this.#donorPipes.set(pipe, process);
    wire.on('close', () => this.#donorPipes.delete(pipe));
    const { address, isHere, socket } = opening;
    server.donorCame(wire, {
      ...{ address, isHere, beside: wire.beside(process, socket) },
      bytesRead: () => wire.bytesRead,
      isCutOff: () => exchange.isBehind || (process !== exchange.process && !exchange.isConnected),
    });
    return true;
  }

  /** While nothing comes of donors at other processes, nobody is late by it. */
  #connection(isConnected: boolean): void {
    const { site, exchange } = this.#options;
    clearTimeout(this.#cutOffTimer);
    if (isConnected) {
      this.#isCutOff = false;
      site.cutOff(false);
    } else
      this.#cutOffTimer = setTimeout(() => {
        this.#isCutOff = true;
        for (const feed of this.#feeds) feed.destroy(new Error(SILENT));
        const isAwaited = [...this.#donorPipes.values()].some((process) => process !== exchange.process);
        if (this.#server !== null && isAwaited) site.cutOff(true);
      }, CUT_OFF_MS);
  }

  /** Before its run ends: gateways keep their donors for the next one to lead. */
  #leaveDonors(): void {
    for (const pipe of this.#donorPipes.keys()) pipe.reset();
    this.#donorPipes.clear();
  }

  get #named(): { readonly run?: string } {
    return this.id === null ? {} : { run: this.id };
  }

  async #lead(term: number): Promise<void> {
    const led = await refusedAtWorst(this.#options.site.lead());
    if (term !== this.#term) return;
    if (led.ok) await this.#openRun(term);
    else await this.#cannotLead(led.reason);
  }

  async #openRun(term: number): Promise<void> {
    const { open, log, onRole } = this.#options;
    const opened = await refusedAtWorst(open());
    if (term !== this.#term) {
      if (opened.ok) await endsWithin(opened.value.close(), END_LIMIT_MS);
      return;
    }
    if (!opened.ok) return this.#cannotLead(opened.reason);
    const server = opened.value;
    this.#server = server;
    log('info', this.id === null ? 'this process leads the site' : `this process leads ${server.run.name}`);
    onRole(server);
    await this.#lease.ready();
  }

  /** Another one may be able to. */
  async #cannotLead(reason: string): Promise<void> {
    this.#options.log('warn', `this process cannot lead: ${reason}`);
    await this.#lease.release(PAUSE_MS);
  }

  /** Nothing more is kept of what its run does: it ends at once, and gateways keep its donors for whoever leads. */
  #ceased(reason: string): void {
    this.#term++;
    const server = this.#server;
    this.#server = null;
    void this.#lease.release();
    if (server === null) return;
    const { log, onRole } = this.#options;
    log('warn', `this process leads ${this.id === null ? 'the site' : server.run.name} no more: ${reason}`);
    this.#leaveDonors();
    onRole(null);
    server.close().catch((error: unknown) => log('debug', String(error))); // what it wanted to keep last
  }
}

/** Whatever it fails of: NATS may go away at any time. */
const refusedAtWorst = <T>(work: Promise<Result<T>>): Promise<Result<T>> =>
  work.catch((error: unknown) => refusal(messageOf(error)));
