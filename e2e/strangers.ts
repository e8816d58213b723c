/**
 * The built server with honest donors at work, and whoever comes to harm them. All of them are scripted: what is looked at
 * is whether the honest ones' commits go on.
 */

import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { ScriptedDonor } from '../signaling-server/testing/scriptedDonor.ts';
import { TinyServers, tinyRunFile } from '../signaling-server/testing/tinyServers.ts';
import { arrayOf } from '../swarm/base.ts';
import type { PeerMessage } from '../swarm/messages/messages.ts';
import type { Profile } from '../swarm/messages/profile.ts';
import { type PublicStatus, publicStatusSchema } from '../swarm/messages/publicStatus.ts';
import { openDonor } from './browser.ts';
import { atTestEnd, type ProductServer, startServer } from './product.ts';

/** More than any test lets the honest donors do. */
const STEPS = 1_000_000;
/** As long as an honest donor computes a step: so that there is a rate that could fall, and a core is left. */
export const STEP_MS = 10;
/** Commits before anyone hostile comes: more than the first steps of a run, of which the server expects less. */
const USUAL_COMMITS = 30;
/** So long commits are counted, without strangers and beside them. */
const STATUS_EVERY_MS = 500;
const COUNTED_MS = { alone: 10_000, beside: 30_000 };

type ScriptedOptions = NonNullable<ConstructorParameters<typeof ScriptedDonor>[1]>;

export interface Siege {
  readonly honest: number;
  /** Absent: as `serve` plans by itself, by what donors measured. */
  readonly stages?: number;
  /** So long an honest donor computes a step. */
  readonly stepMs?: number;
  /** What an honest donor says in place of a message, for what others sent it. */
  readonly says?: (message: PeerMessage) => PeerMessage;
  readonly run?: Omit<Parameters<typeof tinyRunFile>[0], 'steps'>;
}

/** What a donor measures whose layer takes so long for a sample. */
export const measuredProfile = (seconds: number): Profile => ({
  layers: [{ samples: 1, forwardSeconds: seconds, backwardSeconds: 2 * seconds }],
  memoryBytes: 1e9,
  checkedKernels: 0,
});
/** Of a donor that takes so long for a whole step: four layers of eight samples, three times a forward pass each. */
const profileOf = (stepMs: number): Profile => measuredProfile(stepMs / 1_000 / (4 * 8 * 3));

/** An honest donor stands at an address of its own, as homes do. */
const honestAddress = (number: number): string => `198.51.100.${number + 1}`;
/** As many as there are: each of another network. */
export const strangersAddress = (number: number): string =>
  `203.${number >> 16}.${(number >> 8) & 255}.${number & 255}`;

/** A run that trains on the built server. */
export class Besieged {
  readonly folder: TinyServers;
  honest: readonly ScriptedDonor[] = [];
  #server: ProductServer | null = null;
  readonly #siege: Siege;

  /** Once the honest donors have done some steps. */
  static async training(siege: Siege): Promise<Besieged> {
    const besieged = new Besieged(siege);
    await besieged.serve();
    await besieged.join();
    return besieged;
  }

  constructor(siege: Siege) {
    const run = { steps: STEPS, layers: 4, samples: 8, ...siege.run };
    this.folder = new TinyServers(run);
    atTestEnd(() => this.folder.close());
    const file = tinyRunFile(run);
    this.folder.writeRun({ ...file, train: { ...file.train, gradientClipNorm: 1 } });
    this.#siege = siege;
  }

  get url(): string {
    return this.#server?.url ?? '';
  }

  async serve(): Promise<void> {
    const { stages } = this.#siege;
    const { runPath, dataFolder: dataDirectory } = this.folder;
    this.#server = await startServer(runPath, {
      ...{ dataDirectory, trustProxy: '127.0.0.1,::1' },
      ...(stages === undefined ? {} : { stages }),
    });
  }

  /** The honest ones are tabs, of a browser each. */
  async joinByTabs(): Promise<void> {
    for (let tab = 0; tab < this.#siege.honest; tab++) await openDonor(this.url);
    while ((await this.status()).committedSteps < USUAL_COMMITS) await sleep(STATUS_EVERY_MS);
  }

  async join(): Promise<void> {
    const { honest, stepMs = STEP_MS, says } = this.#siege;
    this.honest = arrayOf(honest, (number) =>
      this.donor({ address: honestAddress(number), stepMs, profile: profileOf(stepMs), ...(says && { lie: says }) }),
    );
    await this.commits(USUAL_COMMITS);
  }

  /** As a machine's crash would end it. */
  async kill(): Promise<void> {
    await this.#server?.kill();
  }

  donor(options: ScriptedOptions): ScriptedDonor {
    const donor = new ScriptedDonor(this.url, options);
    atTestEnd(() => donor.vanish());
    return donor;
  }

  /** Resolves when one of the honest donors has heard of so many commits more. A hang is what the test's own time ends. */
  async commits(more: number): Promise<void> {
    const enough = this.honest.map((donor) => {
      const before = donor.heardCount('committed');
      return donor.until(() => donor.heardCount('committed') >= before + more);
    });
    await Promise.race(enough);
    this.expectHonestKept();
  }

  /**
   * What the honest donors do beside strangers, as a share of what they do alone; said in a line. `visit`: one of the strangers
   * after another, or all that there are, until the signal ends it. `rollBacks`: as often committed steps may be given up.
   */
  async shareBeside(
    strangers: string,
    visit: (signal: AbortSignal) => Promise<void>,
    { rollBacks = 0 } = {},
  ): Promise<number> {
    const alone = await commitsPerSecond(this.url, COUNTED_MS.alone);
    const ends = new AbortController();
    const visits = visit(ends.signal);
    const beside = await commitsPerSecond(this.url, COUNTED_MS.beside);
    ends.abort();
    await visits;
    process.stdout.write(`${strangers}: ${alone.toFixed(1)} steps a second became ${beside.toFixed(1)}\n`);
    this.expectHonestKept();
    expect(await this.metric('shoal_roll_backs_total')).toBeLessThanOrEqual(rollBacks);
    return beside / alone;
  }

  /** None of them was refused, or lost its connection. */
  expectHonestKept(): void {
    const refusals = this.honest.flatMap(({ received }) => received.filter(({ type }) => type === 'refused'));
    expect(refusals).toEqual([]);
  }

  status(): Promise<PublicStatus> {
    return statusOf(this.url);
  }

  /** One value of `/metrics`. */
  async metric(name: string): Promise<number> {
    const text = await (await fetch(`${this.url}/metrics`)).text();
    const line = text.split('\n').find((each) => each.startsWith(`${name} `));
    return Number(line?.slice(name.length) ?? 0);
  }
}

const statusOf = async (url: string): Promise<PublicStatus> =>
  publicStatusSchema.parse(await (await fetch(`${url}/api/status`)).json());

/** In so long a time. */
export async function commitsPerSecond(url: string, forMs: number): Promise<number> {
  const { committedSteps: before } = await statusOf(url);
  await sleep(forMs);
  return (1_000 * ((await statusOf(url)).committedSteps - before)) / forMs;
}

/** A donor's connection that reads nothing of what comes. */
export class DeafDonor {
  readonly #socket: Socket;

  constructor(url: string, address: string) {
    const { hostname, host, port } = new URL(url);
    this.#socket = connect(Number(port), hostname);
    this.#socket.on('error', () => {}); // it is let go
    this.#socket.write(
      `GET /api/donor HTTP/1.1\r\nHost: ${host}\r\nX-Forwarded-For: ${address}\r\n` +
        'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n' +
        'Sec-WebSocket-Key: c2hvYWwgaXMgYSBmaXNoLg==\r\n\r\n',
    );
    this.#socket.pause();
    atTestEnd(() => this.#socket.destroy());
  }

  say(word: PeerMessage): void {
    this.#socket.write(textFrame(JSON.stringify(word)));
  }
}

/** Final, a text, masked by zeros. */
function textFrame(text: string): Buffer {
  const bytes = Buffer.from(text);
  const isShort = bytes.length < 126;
  const head = Buffer.alloc(isShort ? 6 : 8);
  head.set([0x81, 0x80 | (isShort ? bytes.length : 126)]);
  if (!isShort) head.writeUInt16BE(bytes.length, 2);
  return Buffer.concat([head, bytes]);
}
