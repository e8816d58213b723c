/**
 * A direct link to one other donor: one connection, or several side by side where the plan counts on them. Each has a
 * window of its own, so that k of them carry min(rate, k·window/round trip). Every frame names its tensor and its place in
 * it: frames go by whichever connection has least to send, and arrive in any order. Loss of one that was open is loss of
 * the link. Signals of the further ones carry their place; the initiator begins with them when the first one is open.
 *
 * The rate is measured from what flows anyway: behind each large frame the other end is asked to say that it is there.
 * Where nothing flows, `measure` sends something.
 */
import type { PeerId } from '../../../swarm/base.ts';
import type { LinkMeasurement } from '../../../swarm/messages/profile.ts';
import { placedSignal, signalPlace } from '../../../swarm/messages/signal.ts';
import { MOST_STREAMS } from '../../../swarm/plan/planLink.ts';
import { type Connection, type ConnectionOptions, type OpenConnection, QUICK_BYTES } from './connection.ts';
import { LineMeter, loneRate, WindowMeter } from './rateMeter.ts';

export interface Link {
  readonly peer: PeerId;
  readonly state: Connection['state'];
  /** Connections that are open. */
  readonly streams: number;
  /** Of the newest answered pings; null before. */
  readonly roundTripMs: number | null;
  /** To the other end, while there was something to send; null before anything was. */
  readonly bytesPerSecond: number | null;
  /** Of each connection, where that is what limits them; null: it is not, or nothing is known of it. */
  readonly windowBytes: number | null;
  /**
   * Resolves when a channel has taken the message; `hasLeft`: when all that it took has left it. Messages may overtake one
   * another. Rejects when the link is not open, or closes first.
   */
  send(message: ArrayBuffer, hasLeft?: boolean): Promise<void>;
  /** Sends these by themselves and waits for the word that they have arrived; null where it does not come. */
  measure(messages: readonly ArrayBuffer[]): Promise<LinkMeasurement | null>;
  /** From now on so many connections, or more: both ends are told so. `opened` is called as each one opens. */
  openStreams(count: number): void;
  /** What the other end signalled. False where it is no signal that this end can use now. */
  signal(data: string): boolean;
  /** Asks the other end whether it lives. Closes the link where an earlier ping has had no answer for too long. */
  ping(nowMs: number): void;
  /** Quietly: `closed` is not called for one's own decision. */
  close(): void;
}

interface LinkOptions extends ConnectionOptions {
  /** What all links of this end share. */
  readonly line?: LineMeter;
}

export type OpenLink = (options: LinkOptions) => Link;

class ConnectedLink implements Link {
  readonly #options: LinkOptions;
  readonly #openConnection: OpenConnection;
  /** The first one, then those beside it by their places, none of which is opened twice. */
  readonly #connections = new Map<number, Connection>();
  readonly #first: Connection;
  readonly #meter = new LineMeter();
  readonly #window = new WindowMeter();
  /** Of each connection: bytes of whose arrival no word came yet. */
  readonly #onTheWay = new Map<Connection, number>();
  #wanted = 1;

  constructor(options: LinkOptions, openConnection: OpenConnection) {
    this.#options = options;
    this.#openConnection = openConnection;
    this.#first = this.#connect(0);
  }

  get peer(): PeerId {
    return this.#options.peer;
  }

  get state(): Link['state'] {
    return this.#first.state;
  }

  get streams(): number {
    return this.#open().length;
  }

  get roundTripMs(): number | null {
    return this.#first.roundTrip?.typicalMs ?? null;
  }

  get bytesPerSecond(): number | null {
    return this.#meter.bytesPerSecond;
  }

  get windowBytes(): number | null {
    const { roundTrip } = this.#first;
    return roundTrip && this.#window.limiting(this.streams, this.bytesPerSecond, roundTrip.leastMs);
  }

  async send(message: ArrayBuffer, hasLeft = false): Promise<void> {
    const bytes = message.byteLength; // none are left where a port has taken it
    const isQuick = bytes <= QUICK_BYTES || this.state !== 'open';
    const connection = isQuick ? this.#first : this.#leastLaden();
    await connection.send(message);
    if (!isQuick) void this.#follow(connection, bytes);
    if (hasLeft) await connection.left();
  }

  async measure(messages: readonly ArrayBuffer[]): Promise<LinkMeasurement | null> {
    const roundTripMs = await this.#marked();
    let bytesPerSecond: number | null = null;
    for (const message of messages) {
      if (roundTripMs === null || this.state !== 'open') return null;
      const bytes = message.byteLength;
      await this.#leastLaden().send(message);
      const milliseconds = await this.#marked();
      if (milliseconds === null) return null;
      bytesPerSecond = loneRate(bytes, milliseconds, roundTripMs);
    }
    return { roundTripMs, bytesPerSecond };
  }

  openStreams(count: number): void {
    this.#wanted = Math.min(MOST_STREAMS, Math.max(this.#wanted, count));
    if (this.state !== 'open' || !this.#options.initiator) return;
    for (let place = this.#connections.size; place < this.#wanted; place++) this.#connect(place);
  }

  signal(data: string): boolean {
    const { place, signal } = signalPlace(data);
    const known = this.#connections.get(place);
    if (!known && (this.#options.initiator || this.state === 'closed')) return false;
    return (known ?? this.#connect(place)).signal(signal);
  }

  ping(nowMs: number): void {
    for (const connection of this.#open()) connection.ping(nowMs);
  }

  close(): void {
    for (const connection of this.#connections.values()) connection.close();
  }

  /** Until word comes that what the connection has just taken is there. */
  async #follow(connection: Connection, bytes: number): Promise<void> {
    const sentMs = performance.now();
    const handOver = (more: number): number => {
      const onTheWay = (this.#onTheWay.get(connection) ?? 0) + more;
      this.#onTheWay.set(connection, onTheWay);
      return onTheWay;
    };
    handOver(bytes);
    const milliseconds = await connection.marked();
    const sent = handOver(-bytes) - connection.bufferedBytes;
    if (connection.bufferedBytes > 0) this.#window.sample(sent);
    const { roundTrip } = this.#first;
    if (milliseconds === null || roundTrip === null) return;
    for (const meter of [this.#meter, this.#options.line])
      meter?.arrived(bytes, sentMs, sentMs + milliseconds, roundTrip);
  }

  #open(): Connection[] {
    return [...this.#connections.values()].filter(({ state }) => state === 'open');
  }

  #leastLaden(): Connection {
    const laden = ({ bufferedBytes, waitingBytes }: Connection): number => bufferedBytes + waitingBytes;
    return this.#open().reduce((least, next) => (laden(next) < laden(least) ? next : least), this.#first);
  }

  /** When all that was sent before, by whichever connection, has arrived. */
  async #marked(): Promise<number | null> {
    const all = await Promise.all(this.#open().map((connection) => connection.marked()));
    return all.reduce((most, one) => (most === null || one === null ? null : Math.max(most, one)), all[0] ?? null);
  }

  #connect(place: number): Connection {
    const { events } = this.#options;
    let wasOpen = false;
    const connection = this.#openConnection({
      ...this.#options,
      events: {
        signal: (data) => events.signal(placedSignal(place, data)),
        opened: () => {
          wasOpen = true;
          if (place === 0) this.openStreams(this.#wanted);
          if (this.state === 'open') events.opened();
        },
        message: (message) => events.message(message),
        // One beside the first that does not open is missing, and nothing more.
        stranded: (why) => {
          if (place === 0) events.stranded(why);
        },
        closed: (reason) => {
          if (place > 0 && !wasOpen) return;
          this.close();
          events.closed(reason);
        },
      },
    });
    this.#connections.set(place, connection);
    return connection;
  }
}

export const linkOver =
  (openConnection: OpenConnection): OpenLink =>
  (options) =>
    new ConnectedLink(options, openConnection);
