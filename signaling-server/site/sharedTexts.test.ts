/** Texts for many donors, from the process that leads to a gateway, over pipes between which nothing is lost. */

import { Buffer } from 'node:buffer';
import { setImmediate as tick } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { arrayOf } from '../../swarm/base.ts';
import { Line } from './line.ts';
import { Pipe } from './pipe.ts';
import { HeardTexts, SharedTexts } from './sharedTexts.ts';

/** `carriedBytes`: from the one that leads to the gateway. */
function leaderAndGateway() {
  const heard = new HeardTexts();
  const carried = { bytes: 0, pipes: 0 };
  const shared = new SharedTexts(() => {
    carried.pipes += 1;
    const there: Pipe = new Pipe(
      (...pieces) => setImmediate(() => here.hear(Buffer.concat(pieces))),
      () => {},
      () => 0,
      new Line(),
    );
    const here: Pipe = new Pipe(
      (...pieces) => {
        const bytes = Buffer.concat(pieces);
        carried.bytes += bytes.length;
        setImmediate(() => there.hear(bytes));
      },
      () => {},
      () => 0,
      new Line(),
    );
    heard.readFrom(there);
    return here;
  });
  const settle = async (): Promise<void> => {
    for (let round = 0; round < 40; round++) await tick();
  };
  return { shared, heard, carried, settle };
}

test('a text for a thousand donors of a gateway goes there once, and each of them gets it', async () => {
  const { shared, heard, carried, settle } = leaderAndGateway();
  const text = Buffer.alloc(200_000, 'x');
  const got: Buffer[] = [];
  for (let donor = 0; donor < 1_000; donor++) heard.whenHere(shared.sayTo('gateway', text), (one) => got.push(one));
  await settle();
  expect(got).toHaveLength(1_000);
  expect(got.every((one) => one.equals(text))).toBe(true);
  expect(carried.bytes).toBeLessThan(text.length + 1_000);
});

test('of texts that come while one is on its way only the newest goes there, for all who wait for one', async () => {
  const { shared, heard, carried, settle } = leaderAndGateway();
  const got: string[] = [];
  for (let text = 0; text < 100; text++) {
    const number = shared.sayTo('gateway', Buffer.from(`${text}`.padStart(1_000)));
    heard.whenHere(number, (one) => got.push(one.toString().trim()));
  }
  await settle();
  expect(got).toEqual(arrayOf(100, (text) => (text === 0 ? '0' : '99')));
  expect(carried.bytes).toBeLessThan(3_000);
});

test('a gateway that followed another one meanwhile gets the text anew', async () => {
  const { shared, heard, carried, settle } = leaderAndGateway();
  const text = Buffer.from('how it stands');
  shared.sayTo('gateway', text);
  await settle();
  heard.forget();
  await settle();
  const got: string[] = [];
  heard.whenHere(shared.sayTo('gateway', text), (one) => got.push(one.toString()));
  await settle();
  expect(got).toEqual(['how it stands']);
  expect(carried.pipes).toBe(2);
});
