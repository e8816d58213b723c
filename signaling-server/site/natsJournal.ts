/** A journal in a stream of JetStream, on file, whose last sequence an append names: NATS lets one of two through. */
import {
  DeliverPolicy,
  JetStreamApiError,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  StorageType,
  type StreamState,
} from '@nats-io/jetstream';
import { type NatsConnection, TimeoutError } from '@nats-io/transport-node';
import { JOURNAL_GONE } from '../files/storageProblem.ts';
import { pause } from '../monitoring/clock.ts';
import { JournalGone, type JournalMessage, type JournalStream } from './journalStream.ts';
import { notTaken } from './natsConnection.ts';

const APPEND_LIMIT_MS = 2_000;
/** Of a message, beside its bytes. */
const HEADERS_BYTES = 1_024;
const MOST_MESSAGE_BYTES = 512 * 1024;
/** How long one request for messages lasts; half of it without a word, and another one is made. */
const FOLLOW_MS = 5_000;
const RETRY_MS = 500;
/** Replicas are for clusters: this NATS is one server. */
const NOT_CLUSTERED = 10074;
/** There is no such stream. */
const NO_STREAM = 10059;
/** Of a site in a cluster, of everything that it keeps. */
const REPLICAS = 3;

/**
 * What was asked of NATS when its connection broke is answered by nobody: it is given up as soon as the connection is there
 * again, so that whoever asked asks anew, and does not first wait for a time-out.
 */
export class Reconnects {
  readonly #waiting = new Set<(error: Error) => void>();

  constructor(nats: Pick<NatsConnection, 'status'>) {
    void this.#follow(nats);
  }

  /** What the work answers; rejects where its answer may be lost. */
  answer<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.add(reject);
      work.then(resolve, reject).finally(() => this.#waiting.delete(reject));
    });
  }

  /** As long as the connection lasts. */
  async #follow(nats: Pick<NatsConnection, 'status'>): Promise<void> {
    for await (const { type } of nats.status()) {
      if (type !== 'reconnect') continue;
      for (const giveUp of this.#waiting) giveUp(new TimeoutError());
    }
  }
}

/** Makes the site's stream where it is not there; answers with the copies that NATS keeps of it. */
export async function openNatsJournal(
  nats: NatsConnection,
  stream: string,
): Promise<{ readonly journal: JournalStream; readonly replicas: number }> {
  const manager = await jetstreamManager(nats);
  const subject = `${stream}.entry`;
  const replicas = await made(manager, stream, subject);
  const client = jetstream(nats, { timeout: APPEND_LIMIT_MS });
  const reconnects = new Reconnects(nats);
  const stateOf = async (options: { readonly deleted_details?: boolean }): Promise<StreamState> => {
    const { state } = await reconnects.answer(manager.streams.info(stream, options)).catch((error: unknown) => {
      if (error instanceof JetStreamApiError && error.code === NO_STREAM) throw new JournalGone(JOURNAL_GONE);
      throw error;
    });
    return state;
  };
  const consumerFrom = (from: number) =>
    reconnects.answer(
      client.consumers.get(stream, { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: from }),
    );

  const journal: JournalStream = {
    messageBytes: Math.min(MOST_MESSAGE_BYTES, (nats.info?.max_payload ?? MOST_MESSAGE_BYTES) - HEADERS_BYTES),
    async append({ sequence, bytes }) {
      const expect = { lastSequence: sequence - 1 };
      await reconnects.answer(client.publish(subject, bytes, { expect })).catch(notTaken);
    },
    name: stream,
    async bounds() {
      const { first_seq: first, last_seq: last } = await stateOf({});
      return { first: Math.max(1, first), last };
    },
    async *read(from) {
      const state = await stateOf({ deleted_details: true });
      // NATS is not waited for with what a person deleted.
      const deleted = new Set(state.deleted);
      let last = state.last_seq;
      while (deleted.has(last)) last--;
      let next = Math.max(from, state.first_seq, 1);
      if (next > last) return;
      const consumer = await consumerFrom(next);
      try {
        while (next <= last) {
          const messages = await consumer.fetch({ max_messages: Math.min(500, last - next + 1), expires: FOLLOW_MS });
          const before = next;
          for await (const message of messages) {
            if (message.seq > last) break;
            next = message.seq + 1;
            yield { sequence: message.seq, bytes: message.data };
            if (next > last) break;
          }
          if (next === before) throw new TimeoutError(); // NATS sends none of them
        }
      } finally {
        ended(consumer);
      }
    },
    follow(from, came) {
      const following = new Following(consumerFrom, from, came);
      void following.run();
      return () => following.end();
    },
    async purge(below) {
      await manager.streams.purge(stream, { seq: below });
    },
  };
  return { journal, replicas };
}

async function made(manager: JetStreamManager, name: string, subject: string): Promise<number> {
  try {
    const { config } = await manager.streams.info(name);
    return config.num_replicas;
  } catch {
    const config = { name, subjects: [subject], storage: StorageType.File };
    try {
      return (await manager.streams.add({ ...config, num_replicas: REPLICAS })).config.num_replicas;
    } catch (error) {
      if ((error as { code?: unknown }).code !== NOT_CLUSTERED) throw error;
      return (await manager.streams.add({ ...config, num_replicas: 1 })).config.num_replicas;
    }
  }
}

/** NATS would keep it for minutes; where it is away it does. */
function ended(consumer: Awaited<ReturnType<ConsumerFrom>>): void {
  consumer.delete().catch(() => {});
}

type ConsumerFrom = (from: number) => ReturnType<ReturnType<typeof jetstream>['consumers']['get']>;

/** Consumers one after the other, each from where the one before ended. */
class Following {
  readonly #consumerFrom: ConsumerFrom;
  readonly #came: (message: JournalMessage) => void;
  #next: number;
  #isEnded = false;
  #stop: (() => unknown) | null = null;

  constructor(consumerFrom: ConsumerFrom, from: number, came: (message: JournalMessage) => void) {
    this.#consumerFrom = consumerFrom;
    this.#next = from;
    this.#came = came;
  }

  async run(): Promise<void> {
    while (!this.#isEnded) {
      try {
        const consumer = await this.#consumerFrom(this.#next);
        try {
          const messages = await consumer.consume({ expires: FOLLOW_MS });
          this.#stop = () => messages.stop();
          for await (const { seq: sequence, data: bytes } of messages) {
            if (this.#isEnded) return;
            this.#next = sequence + 1;
            this.#came({ sequence, bytes });
          }
        } finally {
          ended(consumer);
        }
      } catch {
        // NATS is away: it is asked again.
      }
      if (!this.#isEnded) await pause(RETRY_MS);
    }
  }

  end(): void {
    this.#isEnded = true;
    this.#stop?.();
  }
}
