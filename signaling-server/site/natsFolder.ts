/** An object folder in a bucket of JetStream's object store. */
import { Readable } from 'node:stream';
import { type JetStreamClient, jetstream } from '@nats-io/jetstream';
import { type ObjectStore, Objm } from '@nats-io/obj';
import type { NatsConnection } from '@nats-io/transport-node';
import { notTaken } from './natsConnection.ts';
import type { ObjectFolder } from './objectFolder.ts';

/**
 * Each read and each list has a consumer of its own, which the library (@nats-io/jetstream 3) leaves at NATS for the five
 * minutes after which one without use ends: here it goes with its last message.
 */
function endingConsumers(nats: NatsConnection): JetStreamClient {
  const client = jetstream(nats);
  const { consumers } = client;
  const get = consumers.getPushConsumer.bind(consumers);
  consumers.getPushConsumer = async (stream, options) => {
    const consumer = await get(stream, options);
    const consume = consumer.consume.bind(consumer);
    consumer.consume = async (how) => {
      const messages = await consume(how);
      void messages.closed().then(() => consumer.delete().catch(() => {})); // NATS is away: it ends by itself
      return messages;
    };
    return consumer;
  };
  return client;
}

export async function openNatsFolder(nats: NatsConnection, bucket: string, replicas: number): Promise<ObjectFolder> {
  const store: ObjectStore = await new Objm(endingConsumers(nats)).create(bucket, { replicas });
  const has = async (name: string): Promise<boolean> => {
    const info = await store.info(name);
    return info !== null && !info.deleted;
  };
  return {
    async put(name, chunks) {
      const content = Readable.toWeb(Readable.from(chunks)) as ReadableStream<Uint8Array>;
      await store.put({ name }, content).catch(notTaken);
    },
    async get(name) {
      const found = await store.get(name);
      return found === null ? null : found.data;
    },
    has,
    async remove(name) {
      if (await has(name)) await store.delete(name);
    },
    async list() {
      const found = await store.list();
      return found.flatMap(({ name, deleted }) => (deleted ? [] : name)).sort();
    },
  };
}
