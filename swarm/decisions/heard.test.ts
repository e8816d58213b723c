import { expect, it } from 'vitest';
import { arrayOf, type PeerId, peerId } from '../base.ts';
import type { PlanInForce } from '../coordinator/state.ts';
import type { MetMessage } from '../messages/messages.ts';
import { heardDifferently, tooMuchHeard } from './heard.ts';
import type { Meeting } from './meeting.ts';

const PART = { block: 'head', range: [0, 100] as const };
/** Islands 0, 1 and 2 of a, b and c, each of whom keeps everything; b has no part past 50. */
const PLANS = [...'abc'].map((name, island) => ({
  plan: {
    islands: [island],
    state: [
      {
        block: 'head',
        shards:
          name === 'b'
            ? [
                { peer: 'b', range: [0, 50], replicas: [] },
                { peer: 'd', range: [50, 100], replicas: [] },
              ]
            : [{ peer: name, range: [0, 100], replicas: [] }],
      },
    ],
  },
})) as unknown as PlanInForce[];

/** "a xyz": what a heard of islands 0, 1, 2. */
const met = (words: readonly string[], range: readonly [number, number] = PART.range) =>
  words.map((said) => {
    const [name = '', digests = ''] = said.split(' ');
    const heard = [{ ...PART, range, islands: [...digests].map((_, island) => island), digests: [...digests] }];
    return { peer: peerId(name), said: { heard } as unknown as MetMessage };
  });

const text = (pairs: readonly (readonly [PeerId, PeerId])[]): string => pairs.map((pair) => pair.join('>')).join(' ');

it.each([
  ['all heard the same', ['a xyz', 'b xyz', 'c xyz'], ''],
  ['one tells each something else', ['a xyz', 'b uyz', 'c vyz'], 'b>a c>a'],
  ['one heard something else of each', ['a xyz', 'b uyv', 'c xyz'], 'b>a b>c'],
  ['who says nothing of itself is at odds with all who differ', ['b xyz', 'c uyz'], 'b>a c>a'],
  ['what nobody but one heard is no difference', ['a xyzu', 'b xyz'], ''],
])('[IS123] %s', (_, words, found) => {
  expect(text(heardDifferently(met(words), PLANS))).toBe(found);
});

it('[IS123] who speaks is the primary of that range', () => {
  expect(text(heardDifferently(met(['d xyz', 'a xuz'], [50, 100]), PLANS))).toBe('a>d');
});

it('[IS123] who says two things of one has said both', () => {
  const twice = [...met(['a xyz', 'b xyz']), ...met(['b uyz'])];
  expect(text(heardDifferently(twice, PLANS))).toBe('b>a');
});

it.each([
  [60, ''],
  [61, 'a'],
])('[IS123] of a hundred islands in %d parts, who may say nothing of them: "%s"', (parts, found) => {
  const shard = { peer: 'a', range: [0, 100], replicas: ['b'] };
  const state = arrayOf(parts, (block) => ({ block: `layer.${block}`, shards: [shard] }));
  const plans = [{ epoch: 1, plan: { islands: [0], state } }] as unknown as PlanInForce[];
  const steps = [...arrayOf(100, () => 1), 0, 0];
  const words = [
    { peer: peerId('a'), said: {} },
    { peer: peerId('b'), said: { heard: [] } },
  ];
  expect(tooMuchHeard({ owners: null, steps, met: words } as unknown as Meeting, plans).join('')).toBe(found);
});
