/**
 * One process of a site: it listens, holds donors' sockets and passes calls on to whoever leads; while it leads itself it has
 * the run open, and others pass theirs to it. Rules NA in SPEC.md.
 */
import { type Result, success } from '../../swarm/base.ts';
import type { Access } from '../http/access.ts';
import { type Front, openFront } from '../http/front.ts';
import type { Log } from '../monitoring/log.ts';
import type { Server } from '../server.ts';
import { PipedWire } from './donorPipe.ts';
import { Exchange } from './exchange.ts';
import { type Gateway, openGateway } from './gateway.ts';
import { HeldDonors } from './heldDonors.ts';
import { Lease } from './lease.ts';
import { decodeOpening, encodeOpening } from './opening.ts';
import { OwnToken, USED } from './ownToken.ts';
import { endsWithin } from './patience.ts';
import type { Pipe } from './pipe.ts';
import { SharedTexts } from './sharedTexts.ts';
import type { Site } from './site.ts';
import { type Client, Tunnel } from './tunnel.ts';

/** A process that could not open the run leaves it to others for so long. */
const PAUSE_MS = 5_000;
/** Nothing that waits for NATS holds up an end for longer. */
const END_LIMIT_MS = 2_000;

export interface MemberOptions {
  readonly site: Site;
  readonly access: Access;
  readonly host: string;
  readonly port: number;
  readonly pages: string | undefined;
  readonly embedOn?: readonly string[];
  readonly log: Log;
  /** Opens the run, with this process's replica as it stands, for clients who know it by this address. */
  open(url: string): Promise<Result<Server>>;
  /** The token that this process prints was used: the next one. */
  onOperatorToken?(token: string): void;
  /** It leads from now on with this server, or no more. */
  onRole?(server: Server | null): void;
  /** After each look at which another leads. */
  onFollow?(): void;
}

export class SiteMember {
  readonly #options: MemberOptions;
  readonly #exchange: Exchange;
  readonly #donors: HeldDonors;
  readonly #token: OwnToken;
  readonly #texts: SharedTexts;
  /** While it leads: of donors whose WebSockets end at gateways. */
  readonly #donorPipes = new Set<Pipe>();
  #gateway: Gateway | null = null;
  #front: Front | null = null;
  #lease: Lease | null = null;
  #server: Server | null = null;
  /** Rises with each time that it leads or ceases to. */
  #term = 0;
  #leader: string | null = null;
  #opening: Promise<void> = Promise.resolve();
  #isClosed = false;

  /** Resolves when it listens; whether it leads is seen later. */
  static async open(options: MemberOptions): Promise<Result<SiteMember>> {
    const member = new SiteMember(options);
    const opened = await member.#open();
    return opened.ok ? success(member) : opened;
  }

  private constructor(options: MemberOptions) {
    this.#options = options;
    const { exchange: nats, name } = options.site;
    this.#exchange = new Exchange({ nats, site: name, log: (text) => options.log('warn', text) });
    this.#texts = new SharedTexts((process) => this.#exchange.open(process, encodeOpening({ what: 'texts' })));
    this.#donors = new HeldDonors(this.#exchange);
    this.#token = new OwnToken(this.#exchange, (token) => options.onOperatorToken?.(token));
    this.#exchange.accept((pipe, opening, process) => this.#accepted(pipe, opening, process));
  }

  get url(): string {
    return this.#front?.url ?? '';
  }

  /** Opens an operator's session, once, at any process. */
  get operatorToken(): string {
    return this.#token.current;
  }

  get server(): Server | null {
    return this.#server;
  }

  /** Where it leads: the run again, from what is kept, as when another one was chosen. */
  async reopen(): Promise<void> {
    const server = this.#server;
    if (server === null) return;
    const term = ++this.#term;
    await server.stop();
    this.#server = null;
    this.#options.onRole?.(null);
    if (term === this.#term) await this.#openRun(term);
  }

  /** No other process of the site lives. */
  get isAlone(): boolean {
    return this.#exchange.others === 0;
  }

  /** It is about to end: whether others of the site go on, or it is the last one. */
  leave(): Promise<'alone' | 'others'> {
    return this.#exchange.leave();
  }

  /** The step in progress is done and saved first, where it leads. */
  async stop(): Promise<void> {
    await this.#server?.stop();
    await this.close();
  }

  /** Others go on at once, and no step is given up. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await endsWithin(this.#opening, END_LIMIT_MS);
    const server = this.#server;
    this.#term++;
    this.#server = null;
    if (server !== null) {
      this.#leaveDonors();
      await endsWithin(server.close(), END_LIMIT_MS); // a request may wait for what is not kept
      await this.#options.site.keepLast();
    }
    if (this.#lease !== null) await endsWithin(this.#lease.close(), END_LIMIT_MS);
    this.#donors.close();
    if (this.#gateway !== null) await endsWithin(this.#gateway.close(), END_LIMIT_MS);
    if (this.#front !== null) await endsWithin(this.#front.close(), END_LIMIT_MS);
    await this.#exchange.close();
  }

  async #open(): Promise<Result<void>> {
    const { site, access, host, port, pages, embedOn = [] } = this.#options;
    this.#gateway = await openGateway({
      ...{ access, host, pages, embedOn, donors: this.#donors },
      isLeading: () => this.#server !== null,
      isLed: () => this.#leader !== null && this.#exchange.isConnected && (this.#lease?.isAnswered ?? false),
      tunnel: (client) => this.#tunnel(client),
    });
    const front = await openFront(host, port, access, this.#gateway.http);
    if (!front.ok) {
      await this.#gateway.close();
      await this.#exchange.close();
      return front;
    }
    this.#front = front.value;
    site.onFenced(() => this.#ceased('another process leads'));
    this.#lease = new Lease(site.leases, this.#exchange.process, {
      won: () => {
        const term = ++this.#term;
        this.#opening = this.#lead(term);
      },
      lost: () => this.#ceased('its lease ran out, and another process has it'),
      leads: (leader) => {
        this.#leader = leader;
        this.#donors.follow(leader);
        this.#token.follow(leader);
        if (leader !== null && leader !== this.#exchange.process) this.#options.onFollow?.();
      },
    });
    return success(undefined);
  }

  async #lead(term: number): Promise<void> {
    const { site, log } = this.#options;
    const led = await site.lead();
    if (term !== this.#term) return;
    if (led.ok) return this.#openRun(term);
    log('warn', `this process cannot lead: ${led.reason}`);
    await this.#lease?.release(PAUSE_MS);
  }

  async #openRun(term: number): Promise<void> {
    const { open, log, onRole } = this.#options;
    const opened = await open(this.url);
    if (term !== this.#term) {
      if (opened.ok) await opened.value.close();
      return;
    }
    if (!opened.ok) {
      log('warn', `this process cannot lead: ${opened.reason}`);
      await this.#lease?.release(PAUSE_MS);
      return;
    }
    const server = opened.value;
    this.#server = server;
    this.#front?.handTo(server.http);
    log('info', 'this process leads the site');
    onRole?.(server);
    await this.#lease?.ready();
  }

  /** Nothing more is kept of what its run does: it ends at once, and its donors come back to whoever leads. */
  #ceased(reason: string): void {
    this.#term++;
    const server = this.#server;
    this.#server = null;
    void this.#lease?.release();
    if (server === null) return;
    this.#options.log('warn', `this process leads the site no more: ${reason}`);
    this.#leaveDonors();
    this.#options.onRole?.(null);
    server.close().catch((error: unknown) => this.#options.log('debug', String(error))); // what it wanted to keep last
  }

  /** Before its run ends: gateways keep their donors for the next one to lead. */
  #leaveDonors(): void {
    this.#front?.handTo((this.#gateway as Gateway).http);
    for (const pipe of this.#donorPipes) pipe.reset();
    this.#donorPipes.clear();
  }

  #tunnel(client: Client): Tunnel | null {
    if (this.#leader === null) return null;
    return new Tunnel(this.#exchange.open(this.#leader, encodeOpening({ what: 'request', ...client })), client);
  }

  #accepted(pipe: Pipe, bytes: Buffer, process: string): boolean {
    const server = this.#server;
    const opening = decodeOpening(bytes);
    if (opening?.what === 'texts') return this.#donors.readTexts(pipe, process);
    if (server === null || opening === null) return false;
    if (opening.what === 'request') {
      server.http.emit('connection', new Tunnel(pipe, opening));
      return true;
    }
    if (opening.what === 'token') {
      const forget = server.alsoOpenedBy(opening.token, () => pipe.send(USED, new Uint8Array(0)));
      pipe.read({ onMessage: (_kind, _message, taken) => taken(), onClosed: forget });
      return true;
    }
    const wire = new PipedWire(pipe, (text) => this.#texts.sayTo(process, text));
    this.#donorPipes.add(pipe);
    wire.on('close', () => this.#donorPipes.delete(pipe));
    const { address, isHere } = opening;
    server.donorCame(wire, {
      ...{ address, isHere },
      bytesRead: () => wire.bytesRead,
      isCutOff: () => !this.#exchange.isConnected,
    });
    return true;
  }
}
