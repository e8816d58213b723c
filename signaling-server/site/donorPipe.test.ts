/** A donor's pipe whose other end says what cannot be, by a bug of its process. */
import { Buffer } from 'node:buffer';
import { expect, test } from 'vitest';
import type { HeldWire } from '../donors/door.ts';
import { joinWires, PipedWire } from './donorPipe.ts';
import { Line } from './line.ts';
import { Pipe, RESET_TEXT } from './pipe.ts';
import { HeardTexts } from './sharedTexts.ts';

const [PING, CLOSE, WAYS, SENDERS, WENT] = [3, 5, 10, 11, 12];

/** Its other end says these, each of a kind; what this one answers at last, and what it finds at fault. */
function pipe() {
  const said: Buffer[] = [];
  const faults: string[] = [];
  const end = new Pipe(
    (...pieces) => said.push(Buffer.concat(pieces)),
    () => {},
    () => 0,
    new Line(),
    (what) => faults.push(what),
  );
  let parts = 0;
  const says = (kind: number, content: string | Buffer): void => {
    const head = Buffer.alloc(6);
    head.writeUInt32LE(parts++, 1);
    head[5] = kind;
    end.hear(Buffer.concat([head, Buffer.from(content as string)]));
  };
  return { end, says, said, faults };
}

test('what cannot be read of a gateway costs the donor its pipe there, and is counted once', () => {
  for (const word of ['{garbage', '[]', JSON.stringify({ sent: [{ to: 'x', frames: -1, bytes: 0 }], came: true })]) {
    const { end, says, said, faults } = pipe();
    const closed: number[] = [];
    new PipedWire(end, (text) => text).on('close', (code) => closed.push(code));
    says(WENT, word);
    says(WENT, word);
    expect(closed).toEqual([1006]);
    expect(faults).toHaveLength(1);
    expect(said.at(-1)).toEqual(RESET_TEXT);
  }
});

const code = (value: number): Buffer => {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
};

const way = (gateway: string): string =>
  JSON.stringify({ peer: 'a', ways: [{ to: 'b', gateway, socket: 1, most: null, more: 1 }] });

test.each<[string, number, string | Buffer]>([
  ['ways that are no JSON', WAYS, '{garbage'],
  ['a way to what is no process', WAYS, way('a b')],
  ['senders of another shape', SENDERS, '{"from":5}'],
  ['a code of WebSockets that none closes with', CLOSE, code(65_535)],
  ['a code that is never sent', CLOSE, code(1_006)],
  ['a ping longer than a frame', PING, 'x'.repeat(1_000)],
  ['a ping that is longer in UTF-8', PING, Buffer.alloc(100, 0xff)],
])('%s costs a donor at its gateway its pipe, and not its WebSocket', (_what, kind, content) => {
  const { end, says, said, faults } = pipe();
  const told: unknown[] = [];
  const wire = {
    ping: (data: string) => told.push(data),
    close: (code: number) => told.push(code),
    terminate: () => told.push('terminate'),
  } as unknown as HeldWire;
  let lost = 0;
  const heard: unknown[] = [];
  const joined = joinWires(end, wire, {
    ...{ bytesRead: () => 0, texts: new HeardTexts(), onAnswer() {}, onMember() {} },
    onWays: (ways) => heard.push(ways),
    onSenders: (senders) => heard.push(senders),
    onLost: () => lost++,
  });
  says(WAYS, way('one'));
  says(kind, content);
  expect(heard).toHaveLength(1);
  expect([lost, faults.length]).toEqual([1, 1]);
  expect(said.at(-1)).toEqual(RESET_TEXT);
  expect(told).toEqual([]);
  joined.leave();
});
