/**
 * With whom this peer exchanges tensors now, the links to them, and what each of them takes. The plan says it, and a meeting
 * of groups adds who is in others.
 */
import type { PeerId } from '../../../swarm/base.ts';
import { probeFrames } from '../../../swarm/messages/frame.ts';
import type { ServerMessage } from '../../../swarm/messages/messages.ts';
import { streamsOf } from '../../../swarm/plan/planLink.ts';
import type { Partners } from '../../../swarm/ways/partners.ts';
import type { Epochs } from './epochs.ts';
import { abortable } from './inbox.ts';
import type { Meter } from './meter.ts';
import type { SessionParts, Ways } from './sessionParts.ts';
import { downloadParts, type Traffic } from './traffic.ts';

type Prepare = Extract<ServerMessage, { type: 'prepare' }>;

export class Neighbours {
  readonly #ways: Pick<Ways, 'connect'>;
  readonly #traffic: Traffic;
  #me: PeerId | null = null;
  /** Of the donors that have a cap on what they receive. */
  #downloads: ReadonlyMap<PeerId, number> = new Map();
  #planned: Partners = new Map();
  /** With those of a meeting. */
  #partners: Partners = new Map();
  /** Of these the links: who only handed over to this peer may go when all of it is here. */
  #needed: Partners = new Map();
  #prepared: Prepare | null = null;

  constructor(ways: Pick<Ways, 'connect'>, traffic: Traffic) {
    this.#ways = ways;
    this.#traffic = traffic;
  }

  cap(downloads: ReadonlyMap<PeerId, number>): void {
    this.#downloads = downloads;
    this.#share();
  }

  exchange(me: PeerId | null, partners: Partners): void {
    this.#me = me;
    this.#planned = partners;
    this.#partners = partners;
    this.#needed = partners;
    this.#share();
  }

  need(partners: Partners): void {
    this.#needed = partners;
  }

  isNeeded(peer: PeerId): boolean {
    return this.#me !== null && this.#needed.get(this.#me)?.has(peer) === true;
  }

  /** To all with whom it exchanges anything until the plan's first step, by as many connections as the plan counts on. */
  connect(message: Prepare, signal: AbortSignal): Promise<void> {
    this.#prepared = message;
    return this.#open(this.#partners, message.epoch, [], signal);
  }

  /**
   * Opens links to who is in other groups too. `epoch`: one for both ends of a link. Their packets take what a step's
   * tensors leave of a cap.
   */
  meet(me: PeerId, partners: Partners, epoch: number, relayed: readonly PeerId[], signal: AbortSignal): Promise<void> {
    this.#me = me;
    const all = new Map(this.#planned);
    for (const [peer, others] of partners) all.set(peer, new Set([...(all.get(peer) ?? []), ...others]));
    this.#partners = all;
    this.#share();
    return this.#open(all, epoch, relayed, signal);
  }

  /** Who leaves the epoch waits for its links no more: the next one's may go another way. */
  #open(partners: Partners, epoch: number, relayed: readonly PeerId[], signal: AbortSignal): Promise<void> {
    const me = this.#me;
    if (me === null) return Promise.resolve();
    const { plan, relayed: told = [] } = this.#prepared ?? {};
    const peers = [...(partners.get(me) ?? [])];
    const links = abortable<void>(signal, (resolve, reject) => {
      const through = [...new Set([...told, ...relayed])];
      this.#ways.connect(peers, epoch, through, streamsOf(plan?.links, me)).then(resolve, reject);
    });
    links.catch(() => undefined); // awaited when the stages are built
    return links;
  }

  #share(): void {
    if (this.#me !== null) this.#traffic.share(downloadParts(this.#partners, this.#me, this.#downloads));
  }
}

export interface ProbeParts {
  readonly page: Pick<SessionParts['page'], 'sendServer'>;
  readonly ways: Pick<SessionParts['ways'], 'openDirect' | 'measure'>;
  readonly traffic: Pick<Traffic, 'maySend'>;
  readonly meter: Pick<Meter, 'sent'>;
  readonly epochs: Pick<Epochs, 'current'>;
}

/**
 * The link to a donor with whom no plan has anything to do, measured because the server asks: it opens beside the work, and
 * what is sent over it begins where one step ends, under the donor's caps and counted with everything else that it sends.
 */
export async function probeLink(
  { peer, epoch }: Extract<ServerMessage, { type: 'probe' }>,
  { page, ways, traffic, meter, epochs }: ProbeParts,
): Promise<void> {
  if (!(await ways.openDirect(peer, epoch))) return;
  await epochs.current?.work; // until the step in progress has ended, where there is one
  const frames = probeFrames(epoch);
  for (const { byteLength } of frames) {
    await traffic.maySend(peer, byteLength);
    meter.sent(byteLength);
  }
  const measured = await ways.measure(peer, frames);
  if (measured) page.sendServer({ type: 'probed', peer, ...measured });
}
