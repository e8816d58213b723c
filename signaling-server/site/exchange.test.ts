/** A process's end of a site's exchange, over a NATS of which only what was said to it is there. */
import { Buffer } from 'node:buffer';
import { setImmediate as tick } from 'node:timers/promises';
import type { NatsConnection } from '@nats-io/transport-node';
import { expect, test } from 'vitest';
import { monotonicMs } from '../monitoring/clock.ts';
import { Exchange, OPENING } from './exchange.ts';
import { type Pipe, RESET_TEXT } from './pipe.ts';

const COUNT = 500;
/** Each takes so long to be dealt with. */
const WORK_MS = 2;

type Callback = (error: null, message: { readonly data: Uint8Array; readonly reply: string }) => void;

function exchangeOverNothing() {
  const callbacks = new Map<string, Callback>();
  const said: Buffer[] = [];
  const logged: string[] = [];
  const nats = {
    subscribe: (subject: string, { callback }: { readonly callback: Callback }) => callbacks.set(subject, callback),
    publish: (_subject: string, data: Buffer) => said.push(data),
    isClosed: () => false,
    flush: async () => {},
    status: () => (async function* () {})(),
  } as unknown as NatsConnection;
  const exchange = new Exchange({ nats, site: 's', log: (text) => logged.push(text) });
  const says = (data: Uint8Array, from = 'other'): void =>
    callbacks.get(`shoal.s.to.${exchange.process}`)?.(null, { data, reply: `shoal.s.to.${from}` });
  return { exchange, says, said, logged };
}

/** Of a pipe that another process opens: its part of this number. */
function part(pipe: number, number: number, kind: number, content = '{}'): Buffer {
  const head = headOf(pipe);
  const data = Buffer.alloc(6);
  data.writeUInt32LE(number, 1);
  data[5] = kind;
  return Buffer.concat([head, data, Buffer.from(content)]);
}

function headOf(pipe: number): Buffer {
  const head = Buffer.alloc(13);
  head[0] = 1;
  head.writeUInt32LE(pipe, 1);
  return head;
}

const opening = (pipe: number): Buffer => part(pipe, 0, OPENING);
const END = 0x7f;
const reset = (pipe: number): Buffer => Buffer.concat([headOf(pipe), RESET_TEXT]);

test('timers have their turn while hundreds of messages that came at once are dealt with, in order', async () => {
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

test('while what came a second ago waits, a process does not know who is late', async () => {
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

function listen(pipe: Pipe, heard: string[]): void {
  pipe.read({
    onMessage: (_kind, message, taken) => {
      heard.push(message.toString());
      taken();
    },
    onClosed: (how) => heard.push(how),
  });
}

test('what a process says to itself does not go by NATS', async () => {
  const { exchange, said } = exchangeOverNothing();
  const heard: string[] = [];
  exchange.accept((pipe, bytes) => {
    heard.push(bytes.toString());
    listen(pipe, heard);
    return true;
  });
  const pipe = exchange.open(exchange.process, Buffer.from('to itself'));
  const over = new Promise<void>((resolve) => pipe.send(1, Buffer.from('a word'), resolve));
  await over;
  pipe.end();
  while (!heard.includes('ended')) await new Promise((resolve) => setImmediate(resolve));
  expect(heard).toEqual(['to itself', 'a word', 'ended']);
  expect(said).toEqual([]);
  await exchange.close();
});

test('a pipe that is over is not opened again by what is said again of it, and the other end is told once', async () => {
  const { exchange, says, said } = exchangeOverNothing();
  const heard: string[] = [];
  exchange.accept((pipe) => {
    heard.push('opened');
    listen(pipe, heard);
    return true;
  });
  const all = [opening(3), part(3, 1, 1, 'do it'), part(3, 2, END, '')];
  for (const message of [...all.slice(0, 2), ...all, ...all]) says(message);
  await tick();
  for (const message of [...all, ...all]) says(message);
  await tick();
  expect(heard).toEqual(['opened', 'do it', 'ended']);
  expect(said.filter((bytes) => bytes.subarray(13).equals(RESET_TEXT))).toHaveLength(1);
  await exchange.close();
});

test('a pipe whose opener gave it up before it was heard of is not opened at all', async () => {
  const { exchange, says, said } = exchangeOverNothing();
  const opened: string[] = [];
  exchange.accept((_pipe, bytes) => {
    opened.push(bytes.toString());
    return true;
  });
  for (const message of [opening(1), part(1, 1, 1), reset(1), opening(1), part(2, 0, OPENING, 'other')]) says(message);
  await tick();
  expect(opened).toEqual(['other']);
  expect(said.filter((bytes) => bytes.subarray(13).equals(RESET_TEXT))).toHaveLength(0);
  await exchange.close();
});

test('what cannot be read is said to the terminal and counted, and costs its pipe alone', async () => {
  const { exchange, says, said, logged } = exchangeOverNothing();
  const heard: string[] = [];
  exchange.accept((pipe, _bytes, process) => {
    heard.push(`opened by ${process}`);
    pipe.read({
      onMessage: (_kind, message, taken) => {
        taken();
        if (message.toString() === 'garbage') pipe.fault('garbage');
        else heard.push(message.toString());
      },
      onClosed: (how) => heard.push(how),
    });
    return true;
  });
  for (const message of [opening(1), opening(2), part(1, 1, 1, 'garbage'), part(2, 1, 1, 'a word')]) says(message);
  for (const from of ['', 'a b', '*', '>', 'a.b']) says(opening(3), from);
  await tick();
  expect(heard).toEqual(['opened by other', 'opened by other', 'lost', 'a word']);
  expect(exchange.malformed).toBe(1);
  expect(logged).toEqual([
    'process other of the site said what cannot be read (garbage): that conversation is dropped',
  ]);
  expect(said.filter((bytes) => bytes.subarray(13).equals(RESET_TEXT))).toHaveLength(1);
  await exchange.close();
});
