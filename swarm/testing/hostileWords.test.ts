import { expect, test } from 'vitest';
import { arrayOf, seededRandom } from '../base.ts';
import { decodePeerMessage, peerMessageSchema } from '../messages/messages.ts';
import { hostileWord } from './hostileWords.ts';

test('hostile words are of every type that a donor may say', () => {
  const random = seededRandom(20_261_122);
  const words = arrayOf(4_000, () => hostileWord(random, { peers: ['a', 'b'], epoch: 3, step: 9 }));
  const decoded = words.map((word) => decodePeerMessage(word));
  const types = new Set(decoded.flatMap((each) => (each.ok ? each.value.type : [])));
  expect([...types].toSorted()).toEqual(peerMessageSchema.options.map(({ shape }) => shape.type.value).toSorted());
});
