/**
 * What was asked of NATS when its connection broke is answered by nobody: it is given up as soon as the connection is there
 * again, so that whoever asked asks anew, and does not first wait for a time-out.
 */
import { type NatsConnection, TimeoutError } from '@nats-io/transport-node';

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
