import { expect, it } from 'vitest';
import { arrayOf, type PeerId, peerId } from '../base.ts';
import { type Accusation, culpritsIn, silentIn, withAccusation } from './meetingBlame.ts';

const peers = (names: string): PeerId[] => [...names].map(peerId);
const HERE = peers('abcdef');

/** "ab": a says it of b. */
function said(words: string, reason: Accusation['reason'] = 'badFrame', round = 7): Accusation[] {
  return words.split(' ').map((pair) => {
    const [by = '', about = ''] = pair;
    return { by: peerId(by), about: peerId(about), round, reason };
  });
}

it.each([
  ['two say it of one', said('ab cb'), 'b'],
  ['one says it of the other: the one that came last goes', said('ab'), 'b'],
  ['the same, and it is who says it', said('ba'), 'b'],
  ['one says it of two, and two of it', said('ab ac ba ca'), 'a'],
  ['one says it of all the others', said('ab ac ad'), 'a'],
  ['two do, of all the others', said('ac ad ae bc bd be'), 'b'],
  ['two are named by the same two', said('ca da cb db'), 'b'],
  ['nobody says anything', [], ''],
  ['who is gone has done nothing any more', said('ax bx'), ''],
  ['of who is gone a word alone is none', said('xa'), ''],
  ['one said it some rounds ago, another one does now', [...said('xa', 'badFrame', 3), ...said('ba')], 'a'],
  ['what was said before alone is not about this meeting', said('ab cb', 'badFrame', 3), ''],
  [
    'who was told nothing itself has nothing to publish',
    [...said('ab cb', 'notPublished'), ...said('bd ad', 'noPacket')],
    'd',
  ],
  [
    'who says that nothing was published has something to say',
    [...said('ab cb', 'noPacket'), ...said('bd', 'notPublished')],
    'b',
  ],
  [
    'who was told nothing some rounds ago owes something now',
    [...said('ab cb', 'notPublished'), ...said('bd', 'noPacket', 6)],
    'b',
  ],
])('[IS122] %s', (_, words, gone) => {
  expect(culpritsIn(words, 7, HERE)).toEqual(peers(gone));
});

it('[IS122] where what failed is somebody’s own, of a pair nobody goes', () => {
  expect(culpritsIn(said('ab'), 7, HERE, peers('f'))).toEqual(peers('f'));
  expect(culpritsIn(said('ab cb'), 7, HERE, peers('f'))).toEqual(peers('fb'));
});

it('[IS122] what was said is remembered for twenty rounds, each of it once', () => {
  const before = [...said('ab', 'badFrame', 1), ...said('ab', 'badFrame', 2)];
  const [again] = said('ab', 'badFrame', 21);
  if (!again) throw new Error('a said it');
  expect(withAccusation(before, again)).toEqual([...said('ab', 'badFrame', 2), again]);
  expect(withAccusation([again], again)).toEqual([again]);
  const all = arrayOf(1_001, (place) => ({ ...again, about: peerId(`p${place}`) }));
  const kept = all.reduce<readonly Accusation[]>(withAccusation, []);
  expect([kept.length, kept[0]?.about]).toEqual([1_000, 'p1']);
});

it('[IS122] who was late twice and says for whom it waited was not late itself', () => {
  const late = { attempt: 1, missing: peers('abc') };
  expect(silentIn(peers('abd'), late, said('ad', 'noPacket'), 7)).toEqual(peers('b'));
  expect(silentIn(peers('abd'), late, said('ad'), 7)).toEqual(peers('ab'));
  expect(silentIn(peers('abd'), late, said('ad', 'noPacket', 6), 7)).toEqual(peers('ab'));
});
