/** Servers of a site over a NATS in memory, on the test's clock: the production code of what they keep. */
import { below, peerId, type Random } from '../../swarm/base.ts';
import type { CommitRecord } from '../../swarm/coordinator/events.ts';
import { storageProblem } from '../files/storageProblem.ts';
import { openSiteData, type SiteData } from '../site/site.ts';
import { VirtualLink, type VirtualNats } from './virtualNats.ts';

export const RUN = 'r';
const DOCUMENT = JSON.stringify({ data: { shards: [] }, evaluation: null, tokenizer: [] });
const MANIFEST = JSON.stringify({ step: 0, shards: [] });

export const commit = (step: number, loss: number): CommitRecord => ({
  ...{ step, loss, gradientNorm: 1.5, learningRate: 0.001, tokens: 256, seconds: 0.25 },
  ...{ donors: 2, stages: 2, microBatches: 8, plan: 1, bytesDirect: 1_000, bytesRelayed: 0 },
});

/** What donors and people were told of a step, by whom. */
export interface Told {
  readonly step: number;
  readonly loss: number;
}

/** One server, with a coordinator that commits one step after the other for as long as it leads. */
export class VirtualServer {
  readonly link: VirtualLink;
  site: SiteData | null = null;
  fences = 0;
  /** Lead and believes that it still does. */
  coordinates = false;
  readonly #directory: string;
  readonly #random: Random;
  readonly #tell: (told: Told) => void;
  /** Makes each word of this server one that no other server and no other time says. */
  #words = 0;
  readonly #number: number;

  constructor(nats: VirtualNats, directory: string, number: number, random: Random, tell: (told: Told) => void) {
    this.#directory = directory;
    this.#number = number;
    this.#random = random;
    this.#tell = tell;
    this.link = new VirtualLink(nats, { random, delayMs: 40, loss: 0.02 }, () => performance.now());
  }

  async open(): Promise<void> {
    this.link.isCut = false;
    for (;;) {
      const opened = await openSiteData(this.link.shared, this.#directory, () => {});
      if (!opened.ok) continue; // requests were lost
      this.site = opened.value;
      opened.value.onFenced(() => {
        this.fences += 1;
        this.coordinates = false;
      });
      return;
    }
  }

  /** As SIGKILL: what waited is neither kept nor said. */
  kill(): void {
    this.coordinates = false;
    this.site?.data.close();
    this.site = null;
  }

  async lead(): Promise<boolean> {
    const { site } = this;
    if (site === null) return false;
    const led = await site.lead();
    if (this.site !== site || !led.ok) return false;
    this.coordinates = true;
    return true;
  }

  /** A step, or another word; it goes ahead of what is kept. */
  act(): void {
    if (!this.coordinates || this.site === null) return;
    const { store } = this.site.data;
    try {
      if (store.run(RUN) === null) store.addRun(RUN, 'hash', DOCUMENT, MANIFEST, 0);
      const step = store.committedSteps(RUN);
      this.#words += 1;
      const loss = this.#number + this.#words / 2 ** 20;
      store.commitStep(RUN, commit(step, loss), [{ peer: peerId(`p${below(this.#random, 3)}`), tokens: 2 }]);
      store.whenKept(() => this.#tell({ step, loss }));
      if (this.#random() < 0.1) void store.copy();
      // More than one message.
      if (this.#random() < 0.1) store.addEvent(RUN, 'planned', 'x'.repeat(5_000), 0, step);
    } catch (error) {
      if (storageProblem(error) === null) throw error;
    }
  }
}

/** What all messages carry, one after the other: a commit may begin in one and end in the next. */
export const bodies = (nats: VirtualNats): string =>
  nats.messages
    .map(({ bytes }) => {
      const text = Buffer.from(bytes).toString('latin1');
      return text.slice(text.indexOf('\n') + 1);
    })
    .join('');
