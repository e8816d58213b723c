/** The two ends of a pipe over a carrier that loses what a seed says. */
import { Buffer } from 'node:buffer';
import { setImmediate as tick } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { arrayOf, seededRandom } from '../../swarm/base.ts';
import { LINE_WINDOW_BYTES, Line } from './line.ts';
import { PIPE_WINDOW_BYTES, Pipe, RESEND_MS, RESET_TEXT } from './pipe.ts';

interface Heard {
  readonly kind: number;
  readonly message: Buffer;
  readonly taken: () => void;
}

function twoEnds(isLost: () => boolean = () => false, line = new Line()) {
  let nowMs = 0;
  let carriedBytes = 0;
  const over: string[] = [];
  const now = (): number => nowMs;
  const carry =
    (to: () => Pipe) =>
    (...pieces: readonly Uint8Array[]) => {
      if (isLost()) return;
      const bytes = Buffer.concat(pieces);
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
    line,
  );
  const other: Pipe = new Pipe(
    carry(() => one),
    () => over.push('other'),
    now,
    new Line(),
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

test('what is said arrives whole, in order and once, though a third of all that carries it is lost', async () => {
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

test('an end sends no more than a window past what the other end took', async () => {
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

test('who is sent something of a pipe that it does not know ends it at the other end', async () => {
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

test('all pipes to a process have no more on their way there than a line holds, each gets its turn, and who does not read holds up nobody else', async () => {
  const line = new Line();
  const isAway = { value: true };
  const message = Buffer.alloc(65_536);
  const count = 3 * (LINE_WINDOW_BYTES / PIPE_WINDOW_BYTES);
  const pipes = arrayOf(count, () => twoEnds(() => isAway.value, line));
  for (const { one } of pipes) for (let sent = 0; sent < 20; sent++) one.send(1, message);
  expect(line.isFull).toBe(true);
  isAway.value = false;
  for (let round = 0; round < 5; round++) for (const { later } of pipes) await later();
  // Nobody has taken anything: each is held back by its own window alone.
  expect(pipes.map(({ heard }) => heard.length)).toEqual(pipes.map(() => 8));
  expect(line.isFull).toBe(false);
  for (const { one } of pipes) one.reset();
});

test('what is said while nothing is heard of the other process fills a line and no more, and counts no more when it is gone', () => {
  const line = new Line();
  let carriedBytes = 0;
  const say = (...pieces: readonly Uint8Array[]): void => {
    carriedBytes += Buffer.concat(pieces).length;
  };
  const pipes = arrayOf(
    64,
    () =>
      new Pipe(
        say,
        () => {},
        () => 0,
        line,
      ),
  );
  for (const pipe of pipes) for (let sent = 0; sent < 4; sent++) pipe.send(1, Buffer.alloc(131_072));
  expect(carriedBytes).toBeGreaterThanOrEqual(LINE_WINDOW_BYTES);
  expect(carriedBytes).toBeLessThan(LINE_WINDOW_BYTES + 200_000);
  // Whose pipe is full is told so also where its words wait for others'.
  expect(pipes.every(({ isFull }) => isFull)).toBe(true);
  const later = pipes.at(-1);
  for (const pipe of pipes) if (pipe !== later) pipe.lose();
  expect(carriedBytes).toBeGreaterThan(LINE_WINDOW_BYTES + 4 * 131_072 - 1);
  later?.lose();
  expect(line.isFull).toBe(false);
});

/** An end of which nothing comes to the other one: what it says, and whether it is over. */
function endOfNothing() {
  const end = { nowMs: 0, said: [] as Buffer[], isOver: false };
  const pipe = new Pipe(
    (...pieces) => end.said.push(Buffer.concat(pieces)),
    () => {
      end.isOver = true;
    },
    () => end.nowMs,
    new Line(),
  );
  /** How often it says something in so many seconds, of which it looks in each. */
  const saidIn = (seconds: number): number => {
    const before = end.said.length;
    for (let second = 0; second < seconds; second++) {
      end.nowMs += RESEND_MS;
      pipe.resend();
    }
    return end.said.length - before;
  };
  return { pipe, end, saidIn };
}

test('what nobody answers is said again less and less often, and as ever when something was heard', () => {
  const { pipe, saidIn } = endOfNothing();
  pipe.send(0, Buffer.from('one'));
  expect([saidIn(1), saidIn(2), saidIn(4), saidIn(8), saidIn(80)]).toEqual([1, 1, 1, 1, 10]);
  pipe.hear(ackOf(1));
  pipe.send(0, Buffer.from('two'));
  expect([saidIn(1), saidIn(2), saidIn(4)]).toEqual([1, 1, 1]);
});

test('of who is gone before the other end has heard of it only that is said again', () => {
  const unheard = endOfNothing();
  unheard.pipe.send(0, Buffer.from('opening'));
  unheard.pipe.abandon();
  expect(unheard.saidIn(10)).toBe(1);
  expect(unheard.end.said.at(-1)).toEqual(RESET_TEXT);
  expect(unheard.end.isOver).toBe(true);
  const heard = endOfNothing();
  heard.pipe.send(0, Buffer.from('opening'));
  heard.pipe.send(1, Buffer.from('last word'));
  heard.pipe.hear(ackOf(1));
  heard.pipe.abandon();
  heard.saidIn(1);
  expect(heard.end.said.slice(-2).map((bytes) => bytes.readUInt32LE(1))).toEqual([1, 2]);
  expect(heard.end.isOver).toBe(false);
});

/** So many parts came there, and were taken. */
function ackOf(parts: number): Buffer {
  const ack = Buffer.alloc(9, 1);
  ack.writeUInt32LE(parts, 1);
  ack.writeUInt32LE(parts, 5);
  return ack;
}
