/**
 * One process of a site: it listens, holds donors' sockets and passes calls on to whoever leads the run that they are for; of
 * those that it leads itself it has the run open, and others pass theirs to it.
 */
import { type Result, success } from '../../swarm/base.ts';
import { type Access, HUGGING_FACE, type Hub } from '../http/access.ts';
import { type Front, openFront } from '../http/front.ts';
import type { Log } from '../monitoring/log.ts';
import type { Server } from '../server.ts';
import { Exchange } from './exchange.ts';
import { type Gateway, openGateway } from './gateway.ts';
import { decodeOpening } from './opening.ts';
import { OwnToken } from './ownToken.ts';
import { endsWithin } from './patience.ts';
import { END_LIMIT_MS } from './room.ts';
import { Rooms, type RunToOpen } from './rooms.ts';
import type { Site } from './site.ts';

interface MemberOptions {
  readonly site: Site;
  readonly access: Access;
  readonly host: string;
  readonly port: number;
  readonly pages: string | undefined;
  readonly embedOn?: readonly string[];
  readonly hub?: Hub;
  readonly log: Log;
  /** Opens a run, with this process's replica as it stands, for clients who know it by this address. */
  open(url: string, run: RunToOpen): Promise<Result<Server>>;
  /** The token that this process prints was used: the next one. */
  onOperatorToken?(token: string): void;
  /** It leads the run that the site began with from now on with this server, or no more. */
  onRole?(server: Server | null): void;
  /** After each look at which another leads that. */
  onFollow?(): void;
}

interface Parts {
  readonly exchange: Exchange;
  readonly token: OwnToken;
  readonly rooms: Rooms;
  readonly gateway: Gateway;
  readonly front: Front;
}

export class SiteMember {
  readonly #parts: Parts;
  #isClosed = false;

  /** Resolves when it listens; whether it leads is seen later. */
  static async open(options: MemberOptions): Promise<Result<SiteMember>> {
    const { site, access, host, port, pages, embedOn = [], hub = HUGGING_FACE, log } = options;
    const exchange = new Exchange({
      ...{ nats: site.exchange, site: site.name, log: (text) => log('warn', text) },
      malformed: () => rooms.first.server?.run.counts.refused('malformed'),
    });
    const token = new OwnToken(exchange, (next) => options.onOperatorToken?.(next));
    let url = '';
    const rooms: Rooms = new Rooms({
      ...{ site, exchange, log },
      open: (run) => options.open(url, run),
      onRole: (server) => options.onRole?.(server),
      onLook: (leader) => {
        token.follow(leader);
        if (leader !== null && leader !== exchange.process) options.onFollow?.();
      },
    });
    const malformed = (): number => exchange.malformed;
    const gateway = await openGateway({ access, host, pages, embedOn, hub, rooms, malformed });
    const front = await openFront(host, port, access, gateway.http);
    if (!front.ok) {
      await rooms.close();
      await gateway.close();
      await exchange.close();
      return front;
    }
    url = front.value.url;
    exchange.accept((pipe, bytes, process) => {
      const opening = decodeOpening(bytes);
      if (opening === null) return false;
      const room = rooms.of(opening.what === 'token' ? undefined : opening.run);
      return room?.accepted(pipe, opening, process) ?? false;
    });
    rooms.begin();
    return success(new SiteMember({ exchange, token, rooms, gateway, front: front.value }));
  }

  private constructor(parts: Parts) {
    this.#parts = parts;
  }

  get url(): string {
    return this.#parts.front.url;
  }

  /** Opens an operator's session, once, at any process. */
  get operatorToken(): string {
    return this.#parts.token.current;
  }

  /** Names of the runs that this process leads. */
  get led(): readonly string[] {
    return this.#parts.rooms.led;
  }

  /** Where it leads the run that the site began with: that again, from what is kept, as when another one was chosen. */
  async reopen(): Promise<void> {
    await this.#parts.rooms.first.reopen();
  }

  /** No other process of the site lives. */
  get isAlone(): boolean {
    return this.#parts.exchange.others === 0;
  }

  /** It is about to end: whether others of the site go on, or it is the last one. */
  leave(): Promise<'alone' | 'others'> {
    return this.#parts.exchange.leave();
  }

  /** The steps in progress are done and saved first, where it leads. */
  async stop(): Promise<void> {
    await this.#end('stop');
  }

  /** Others go on at once, and no step is given up. */
  async close(): Promise<void> {
    await this.#end('close');
  }

  async #end(how: 'stop' | 'close'): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#parts.rooms[how]();
    await endsWithin(this.#parts.gateway.close(), END_LIMIT_MS);
    await endsWithin(this.#parts.front.close(), END_LIMIT_MS);
    await this.#parts.exchange.close();
  }
}
