/** The two ends of a pipe over a carrier that loses what a seed says. */
import { Buffer } from 'node:buffer';
import { setImmediate as tick } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { seededRandom } from '../../swarm/base.ts';
import { PIPE_WINDOW_BYTES, Pipe, RESEND_MS, RESET_TEXT } from './pipe.ts';

interface Heard {
  readonly kind: number;
  readonly message: Buffer;
  readonly taken: () => void;
}

function twoEnds(isLost: () => boolean = () => false) {
  let nowMs = 0;
  let carriedBytes = 0;
  const over: string[] = [];
  const now = (): number => nowMs;
  const carry = (to: () => Pipe) => (bytes: Buffer) => {
    if (isLost()) return;
    carriedBytes += bytes.length;
    setImmediate(() => {
      if (to() === other && over.includes('other')) one.hear(RESET_TEXT);
      else to().hear(bytes);
    });
  };
  const one: Pipe = new Pipe(
    carry(() => other),
    () => over.push('one'),
    now,
  );
  const other: Pipe = new Pipe(
    carry(() => one),
    () => over.push('other'),
    now,
  );
  const heard: Heard[] = [];
  const closed: string[] = [];
  other.read({
    onMessage: (kind, message, taken) => heard.push({ kind, message, taken }),
    onClosed: (how) => closed.push(how),
  });
  const settle = async (): Promise<void> => {
    for (let round = 0; round < 20; round++) await tick();
  };
  const later = async (): Promise<void> => {
    nowMs += RESEND_MS;
    one.resend();
    other.resend();
    await settle();
  };
  return { one, other, heard, closed, over, settle, later, carriedBytes: () => carriedBytes };
}

test('[NA1] what is said arrives whole, in order and once, though a third of all that carries it is lost', async () => {
  const random = seededRandom(7);
  const { one, heard, closed, over, settle, later } = twoEnds(() => random() < 1 / 3);
  const sizes = [0, 1, 5, 200_000, 3, 131_072, 131_073];
  const taken: number[] = [];
  for (const [index, size] of sizes.entries()) one.send(1, Buffer.alloc(size, index + 1), () => taken.push(index));
  one.end();
  await settle();
  for (let round = 0; round < 100 && closed.length === 0; round++) {
    for (const one of heard) one.taken();
    await later();
  }
  for (let round = 0; round < 100 && over.length < 2; round++) await later();
  expect(heard.map(({ message }) => message.length)).toEqual(sizes);
  expect(heard.every(({ message }, index) => message.every((byte) => byte === index + 1))).toBe(true);
  expect(closed).toEqual(['ended']);
  expect(taken).toEqual([0, 1, 2, 3, 4, 5, 6]);
});

test('[NA1] an end sends no more than a window past what the other end took', async () => {
  const { one, heard, settle, carriedBytes } = twoEnds();
  for (let count = 0; count < 40; count++) one.send(1, Buffer.alloc(65_536));
  await settle();
  expect(one.isFull).toBe(true);
  expect(carriedBytes()).toBeLessThan(PIPE_WINDOW_BYTES + 65_536 + 1_000);
  expect(heard).toHaveLength(8);
  for (const { taken } of heard.slice(0, 3)) taken();
  await settle();
  expect(heard).toHaveLength(11);
});

test('[NA1] who is sent something of a pipe that it does not know ends it at the other end', async () => {
  const { one, other, closed, over, settle } = twoEnds();
  one.send(1, Buffer.from('hello'));
  await settle();
  one.reset();
  await settle();
  expect(closed).toEqual(['lost']);
  expect(over).toEqual(['one', 'other']);
  let calls = 0;
  other.send(1, Buffer.from('nobody'), () => calls++);
  expect(calls).toBe(1);
});
