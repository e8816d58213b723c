/** What other processes say, while this one stands still. */
import { Buffer } from 'node:buffer';
import { setImmediate as tick } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Inbox } from './inbox.ts';

test('what is said again while it waits is dropped, and dealt with when it is said again later', async () => {
  const dealtWith: string[] = [];
  const inbox = new Inbox({
    nameOf: (message) => (message[0] === 0 ? null : message.toString()),
    deal: (message) => dealtWith.push(message.toString()),
  });
  // A turn is short: a busy machine takes several.
  const allDealtWith = async (): Promise<void> => {
    for (let turn = 0; turn < 10 || inbox.holds('a') || inbox.holds('b'); turn++) await tick();
  };
  const say = (...words: readonly string[]): void => {
    for (const word of words) inbox.came(Buffer.from(word), '');
  };
  say('a', 'b', 'a', '\0', 'b', '\0', 'a');
  expect([inbox.holds('a'), inbox.holds('c')]).toEqual([true, false]);
  await allDealtWith();
  expect(dealtWith).toEqual(['a', 'b', '\0', '\0']);
  say('a');
  await allDealtWith();
  expect(dealtWith.at(-1)).toBe('a');
  expect(inbox.holds('a')).toBe(false);
});
