/**
 * Where donors' sockets come in, at every process of a site alike: from the page of this very server, and of one address no
 * more than fit. Whose conversation it becomes is another's affair.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { type Access, isForwarded, isSameOrigin } from '../http/access.ts';
import { AddressLimit } from '../http/addressLimit.ts';
import { Arrivals } from '../http/arrivals.ts';
import { refuse } from '../http/calls.ts';
import { isLoopback, networkOf } from '../http/networkOf.ts';
import { refusedFor } from './donorSocket.ts';
import type { DonorWire, Origin } from './donorWire.ts';

/** Donors of one address at once: a class behind one router fits. */
export const DONORS_PER_ADDRESS = 256;
/** Times a minute that each of them may connect: every time is written down. */
const JOINS_PER_DONOR = 3;
/** New ones of all addresses. */
export const SOCKETS = { atOnce: 100, perSecond: 40 };

/** A donor's WebSocket that ends here. */
export interface HeldWire extends DonorWire {
  pause(): void;
  resume(): void;
}

const runQuery = z.object({ run: z.string().optional() });

export interface DoorOptions {
  readonly access: Access;
  readonly perAddress?: number | undefined;
  /** `run`: the name of the one that it asks for; undefined: any. */
  came(socket: HeldWire, origin: Origin, run: string | undefined): void;
  /** One of an address that has as many as it may. */
  refused(): void;
}

export function addDonorDoor(app: FastifyInstance, { access, came, refused, ...options }: DoorOptions): void {
  const perAddress = options.perAddress ?? DONORS_PER_ADDRESS;
  const limit = new AddressLimit(perAddress);
  const arrivals = new Arrivals(SOCKETS);
  const isHere = (headers: IncomingHttpHeaders, ip: string): boolean =>
    access.trustProxy === undefined && isLoopback(ip) && !isForwarded(headers);
  app.register(async (donors) => {
    donors.addHook('onRequest', async ({ headers, ip }, reply) => {
      if (!isSameOrigin(headers, access)) return refuse(reply, 403, 'only the donor page may do this');
      if (!isHere(headers, ip) && !arrivals.may(networkOf(ip)))
        return refuse(reply, 503, 'too many come at once: try again later');
    });
    const joins = { rateLimit: { max: JOINS_PER_DONOR * perAddress, timeWindow: 60_000 } };
    donors.get('/api/donor', { websocket: true, config: joins }, (socket, { ip, headers, raw, query }) => {
      const address = networkOf(ip);
      const leave = limit.enter(address);
      if (leave === null) {
        refused();
        socket.send(JSON.stringify(refusedFor('serverFull', 'of this address')));
        return socket.close(1013, 'too many donors of this address');
      }
      socket.on('close', leave);
      const bytesRead = (): number => raw.socket.bytesRead;
      const asked = runQuery.safeParse(query);
      came(socket, { address, isHere: isHere(headers, ip), bytesRead }, asked.success ? asked.data.run : undefined);
    });
  });
}
