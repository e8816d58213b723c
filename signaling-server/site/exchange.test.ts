/** A process's end of a site's exchange, over a NATS of which only what was said to it is there. */
import { Buffer } from 'node:buffer';
import type { NatsConnection } from '@nats-io/transport-node';
import { expect, test } from 'vitest';
import { monotonicMs } from '../monitoring/clock.ts';
import { Exchange, OPENING } from './exchange.ts';

const COUNT = 500;
/** Each takes so long to be dealt with. */
const WORK_MS = 2;

type Callback = (error: null, message: { readonly data: Uint8Array; readonly reply: string }) => void;

function exchangeOverNothing() {
  const callbacks = new Map<string, Callback>();
  let said = 0;
  const nats = {
    subscribe: (subject: string, { callback }: { readonly callback: Callback }) => callbacks.set(subject, callback),
    publish: () => said++,
    isClosed: () => false,
    flush: async () => {},
    status: () => (async function* () {})(),
  } as unknown as NatsConnection;
  const exchange = new Exchange({ nats, site: 's', log: () => {} });
  const says = (data: Uint8Array): void =>
    callbacks.get(`shoal.s.to.${exchange.process}`)?.(null, { data, reply: 'shoal.s.to.other' });
  return { exchange, says, said: () => said };
}

/** The first message of a pipe that another process opens. */
function opening(number: number): Buffer {
  const id = Buffer.alloc(13);
  id[0] = 1;
  id.writeUInt32LE(number, 1);
  return Buffer.concat([id, Buffer.from([0, 0, 0, 0, 0, OPENING]), Buffer.from('{}')]);
}

test('[NA66] timers have their turn while hundreds of messages that came at once are dealt with, in order', async () => {
  const { exchange, says } = exchangeOverNothing();
  const dealtWith: number[] = [];
  exchange.accept((_pipe, bytes) => {
    dealtWith.push(bytes.length);
    for (const untilMs = monotonicMs() + WORK_MS; monotonicMs() < untilMs; );
    return true;
  });
  for (let number = 0; number < COUNT; number++) says(opening(number));
  await new Promise((resolve) => setTimeout(resolve, 1));
  expect(dealtWith.length).toBeLessThan(COUNT / 2);
  while (dealtWith.length < COUNT) await new Promise((resolve) => setTimeout(resolve, 1));
  await exchange.close();
});

test('[NA53] while what came a second ago waits, a process does not know who is late', async () => {
  const { exchange, says } = exchangeOverNothing();
  const count = 700;
  const behind: boolean[] = [];
  exchange.accept(() => {
    for (const untilMs = monotonicMs() + WORK_MS; monotonicMs() < untilMs; );
    behind.push(exchange.isBehind);
    return true;
  });
  for (let number = 0; number < count; number++) says(opening(number));
  while (behind.length < count) await new Promise((resolve) => setTimeout(resolve, 1));
  expect(behind.at(-1)).toBe(true);
  await new Promise((resolve) => setImmediate(resolve));
  expect(exchange.isBehind).toBe(false);
  await exchange.close();
});

test('[NA66] what a process says to itself does not go by NATS', async () => {
  const { exchange, said } = exchangeOverNothing();
  const heard: string[] = [];
  exchange.accept((pipe, bytes) => {
    heard.push(bytes.toString());
    pipe.read({
      onMessage: (_kind, message, taken) => {
        heard.push(message.toString());
        taken();
      },
      onClosed: (how) => heard.push(how),
    });
    return true;
  });
  const pipe = exchange.open(exchange.process, Buffer.from('to itself'));
  const over = new Promise<void>((resolve) => pipe.send(1, Buffer.from('a word'), resolve));
  await over;
  pipe.end();
  while (!heard.includes('ended')) await new Promise((resolve) => setImmediate(resolve));
  expect(heard).toEqual(['to itself', 'a word', 'ended']);
  expect(said()).toBe(0);
  await exchange.close();
});
