/**
 * What a link carries between two tabs, beside a bare data channel of the same two tabs in the same run, turn by turn:
 * machines have fast and slow phases. The bare connection is a plain RTCPeerConnection with two channels and the
 * simplest gate there is; the link is the product's, with its channels in a worker or, by ports, in the page.
 */
import { at, invariant, nearestRank } from '../../../swarm/base.ts';
import { FRAME_BYTES } from '../../../swarm/messages/frame.ts';
import { connectionBy } from '../../../web/src/net/connection.ts';
import { linkOver } from '../../../web/src/net/link.ts';
import { dialPeer } from '../../../web/src/net/peerConnection.ts';
import { Answers, LinkWay, rateOf, type Way } from './linkWay.ts';
import { WorkerWay } from './workerWay.ts';

const SIZES = [1_024, 16_384, 65_536, 262_144, 1_048_576, 4_194_304];
const ROUNDS = 5;
const TURN_MS = 1_000;
const ROUND_TRIPS = 8;
const LOAD_BYTES = 262_144;
const SMALL_BYTES = 1_024;
const LOAD_MS = 5_000;
const HEARTBEAT_BYTES = 100_000_000;
const HEARTBEAT_INTERVAL_MS = 250;
/** The bare channel's gate, as wide as the link's. */
const HIGH_BYTES = 1_048_576;

interface Rate {
  readonly bytesPerSecond: number;
  readonly roundTripMs: number;
}
interface Spread {
  readonly medianMs: number;
  readonly p95Ms: number;
}
export interface TransportBenchResult {
  /**
   * `link`: its channels in a worker at both ends, `ports`: in the page, behind ports. `share`, `gain`: medians over the rounds
   * of the link's rate over the bare channel's, and over that by ports.
   */
  readonly frames: readonly {
    readonly bytes: number;
    readonly link: Rate;
    readonly ports: Rate;
    readonly bare: Rate;
    readonly share: number;
    readonly gain: number;
  }[];
  /** Round trips of 1 KiB while 256 KiB tensors flow. */
  readonly underLoad: { readonly link: Spread; readonly bareSecondChannel: Spread; readonly ratio: number };
  readonly heartbeats: { readonly megabytes: number; readonly seconds: number; readonly answered: number } & Spread & {
      readonly mostMs: number;
    };
}

/** Carries a signal to the other tab. */
type Carry = (way: Carrier, data: string) => void;
/** Each a connection of its own; `page`: a link in the page's own thread. */
export type Carrier = 'link' | 'ports' | 'page' | 'bare';

const TIMED = ['link', 'ports', 'bare'] as const;

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const rank = (values: readonly number[], share: number): number => nearestRank(values, share) ?? Number.NaN;
const median = (values: readonly number[]): number => rank(values, 0.5);
const spread = (times: readonly number[]): Spread => ({ medianMs: median(times), p95Ms: rank(times, 0.95) });

/** A channel as it comes: 64 KiB messages, the last of what asks for an answer followed by its number. */
class BareWay implements Way {
  readonly #channel: RTCDataChannel;
  readonly #answers = new Answers();
  readonly #message = new ArrayBuffer(FRAME_BYTES);
  sentBytes = 0;

  constructor(channel: RTCDataChannel) {
    this.#channel = channel;
    channel.bufferedAmountLowThreshold = HIGH_BYTES / 4;
    channel.binaryType = 'arraybuffer';
    channel.onmessage = ({ data }) => {
      if (typeof data !== 'string') return;
      if (data.startsWith('?')) channel.send(`!${data.slice(1)}`);
      else this.#answers.arrived(Number(data.slice(1)));
    };
  }

  async send(bytes: number): Promise<void> {
    this.sentBytes += bytes;
    for (let left = bytes; left > 0; left -= FRAME_BYTES) {
      this.#channel.send(left >= FRAME_BYTES ? this.#message : this.#message.slice(0, left));
      if (this.#channel.bufferedAmount < HIGH_BYTES) continue;
      await new Promise((resolve) => this.#channel.addEventListener('bufferedamountlow', resolve, { once: true }));
    }
  }

  async roundTrip(bytes: number): Promise<number> {
    const start = performance.now();
    const { id, answered } = this.#answers.ask();
    await this.send(bytes);
    this.#channel.send(`?${id}`);
    await answered;
    return performance.now() - start;
  }

  async settled(): Promise<void> {
    await this.roundTrip(1);
  }
}

/** One tab's end of both connections. */
export class TransportEnd {
  readonly #link: LinkWay;
  readonly #inWorker: WorkerWay;
  readonly #byPorts: WorkerWay;
  readonly #bare = new RTCPeerConnection();
  readonly #bulk: BareWay;
  readonly #second: BareWay;
  readonly #carry: Carry;
  readonly #channels: RTCDataChannel[];

  constructor(initiator: boolean, carry: Carry) {
    this.#carry = carry;
    this.#link = new LinkWay(linkOver(connectionBy(dialPeer)), initiator, (data) => carry('page', data));
    this.#inWorker = new WorkerWay(initiator, false, (data) => carry('link', data));
    this.#byPorts = new WorkerWay(initiator, true, (data) => carry('ports', data));
    this.#channels = [0, 1].map((id) => this.#bare.createDataChannel(`bare ${id}`, { negotiated: true, id }));
    const [bulk, second] = this.#channels;
    invariant(bulk && second, 'two channels');
    this.#bulk = new BareWay(bulk);
    this.#second = new BareWay(second);
    this.#bare.onicecandidate = ({ candidate }) => carry('bare', JSON.stringify({ candidate }));
    if (initiator) void this.#bare.setLocalDescription().then(() => this.#describe());
  }

  async signalled(way: Carrier, data: string): Promise<void> {
    if (way === 'page') {
      this.#link.link.signal(data);
      return;
    }
    if (way !== 'bare') {
      (way === 'link' ? this.#inWorker : this.#byPorts).signalled(data);
      return;
    }
    const { candidate, description } = JSON.parse(data);
    if (!description) await this.#bare.addIceCandidate(candidate);
    else {
      await this.#bare.setRemoteDescription(description);
      if (description.type !== 'offer') return;
      await this.#bare.setLocalDescription();
      this.#describe();
    }
  }

  async measure(): Promise<TransportBenchResult> {
    await this.#link.opened;
    for (const channel of this.#channels) {
      if (channel.readyState !== 'open') await new Promise((resolve) => channel.addEventListener('open', resolve));
    }
    const frames = [];
    for (const bytes of SIZES) frames.push(await this.#frames(bytes));
    return { frames, underLoad: await this.#underLoad(), heartbeats: await this.#heartbeats() };
  }

  #describe(): void {
    this.#carry('bare', JSON.stringify({ description: this.#bare.localDescription }));
  }

  async #frames(bytes: number) {
    const rates = { link: [] as number[], ports: [] as number[], bare: [] as number[] };
    const trips = { link: [] as number[], ports: [] as number[], bare: [] as number[] };
    const bare = { rate: (size: number) => rateOf(this.#bulk, size), roundTrip: this.#bulk.roundTrip.bind(this.#bulk) };
    const ways = { link: this.#inWorker, ports: this.#byPorts, bare };
    for (let round = 0; round < ROUNDS; round++) {
      for (const name of round % 2 === 0 ? TIMED : TIMED.toReversed()) {
        rates[name].push(await ways[name].rate(bytes));
        for (let i = 0; i < ROUND_TRIPS; i++) trips[name].push(await ways[name].roundTrip(bytes));
      }
    }
    const of = (name: (typeof TIMED)[number]): Rate => ({
      bytesPerSecond: median(rates[name]),
      roundTripMs: median(trips[name]),
    });
    // Of each round by itself: what slows the machine down for a while slows all ways of a round.
    const over = (other: 'ports' | 'bare'): number =>
      median(rates.link.map((rate, round) => rate / at(rates[other], round)));
    const rows = { link: of('link'), ports: of('ports'), bare: of('bare') };
    return { bytes, ...rows, share: over('bare'), gain: over('ports') };
  }

  async #underLoad(): Promise<TransportBenchResult['underLoad']> {
    const times = { link: [] as number[], bare: [] as number[] };
    for (let round = 0; round < 2; round++) {
      times.link.push(...(await tripsUnderLoad(this.#link, this.#link)));
      times.bare.push(...(await tripsUnderLoad(this.#bulk, this.#second)));
    }
    const [link, bareSecondChannel] = [spread(times.link), spread(times.bare)];
    return { link, bareSecondChannel, ratio: link.medianMs / bareSecondChannel.medianMs };
  }

  async #heartbeats(): Promise<TransportBenchResult['heartbeats']> {
    const { link } = this.#link;
    const start = performance.now();
    let isOver = false;
    const flow = (async () => {
      for (let sent = 0; sent < HEARTBEAT_BYTES; sent += LOAD_BYTES) await this.#link.send(LOAD_BYTES);
      await this.#link.settled();
      isOver = true;
    })();
    const times: number[] = [];
    while (!isOver) {
      link.ping(performance.now());
      await wait(HEARTBEAT_INTERVAL_MS);
      if (link.roundTripMs !== null) times.push(link.roundTripMs);
    }
    await flow;
    const seconds = (performance.now() - start) / 1_000;
    const counted = { megabytes: HEARTBEAT_BYTES / 1e6, seconds, answered: times.length };
    return { ...counted, ...spread(times), mostMs: Math.max(0, ...times) };
  }
}

async function tripsUnderLoad(load: Way, small: Way): Promise<number[]> {
  const start = performance.now();
  const isOver = (): boolean => performance.now() - start > LOAD_MS;
  const flow = (async () => {
    while (!isOver()) await load.send(LOAD_BYTES);
  })();
  await wait(TURN_MS / 2); // until the load's queues are full
  const times: number[] = [];
  while (!isOver()) {
    times.push(await small.roundTrip(SMALL_BYTES));
    await wait(20);
  }
  await flow;
  await load.settled();
  return times;
}
