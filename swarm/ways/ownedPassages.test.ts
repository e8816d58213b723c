import { expect, test } from 'vitest';
import { arrayOf, peerId, type Range } from '../base.ts';
import { tensorBytes } from '../messages/frame.ts';
import type { MeetingOwners } from '../messages/meetingWords.ts';
import type { Model } from '../model/model.ts';
import type { Shard } from '../plan/plan.ts';
import { outlineModel } from '../testing/randomPlan.ts';
import { meetingPartners, meetingPassages, passagesOf } from './meeting.ts';

const shard = (keepers: string, range: Range): Shard => {
  const [peer = peerId('?'), ...replicas] = [...keepers].map(peerId);
  return { peer, range, replicas };
};

/** One block: two tensors of 100 and 60 elements. */
const outline = outlineModel(1, false);
const tensor = { name: 't', shape: [1], initial: 'normal' as const };
const tensors = [
  { ...tensor, elements: 100, offset: 0 },
  { ...tensor, elements: 60, offset: 100 },
];
const model: Model = { ...outline, blocks: [{ name: 'head', elements: 160, tensors }] };
const settings = { exchange: { top: 2, chunk: 64, feedback: 0.5 }, publish: 'int8' } as const;
/** One group keeps the block whole with a copy and does two islands, the other has it in two shards. */
const groups = [
  { islands: [0, 2], state: [{ block: 'head' as const, shards: [shard('ab', [0, 160])] }] },
  { islands: [1], state: [{ block: 'head' as const, shards: [shard('c', [0, 64]), shard('de', [64, 160])] }] },
];
/** b has the first runs and goes on having them; of what x and c have d gets a part; y, z and a have nothing yet. */
const owners: MeetingOwners = {
  ranges: [
    { block: 'head', range: [0, 64], have: [peerId('b')], keep: [peerId('b')] },
    { block: 'head', range: [64, 100], have: [peerId('x'), peerId('c')], keep: [peerId('c'), peerId('d')] },
    { block: 'head', range: [100, 160], have: [], keep: [peerId('y'), peerId('a')] },
  ],
  savedBy: [1],
};
const passages = meetingPassages(model, settings, groups, owners);
const said = (kind: string): string[] =>
  passages
    .filter((one) => one.tensor.kind === kind)
    .map(({ from, to, island, range, tensor: { stage } }) => `${from}>${to} ${island ?? stage} ${range.join('-')}`)
    .toSorted();

test('[IS112] packets go to who works on a range, and whole to copies', () => {
  expect(said('packet')).toEqual(
    [
      // b is a copy: it is sent what it works on with all else. a works on the last range itself.
      ...['a>b 0 0-160', 'a>b 2 0-160', 'a>x 0 64-100', 'a>x 2 64-100', 'a>c 0 64-100', 'a>c 2 64-100'],
      ...['a>y 0 100-160', 'a>y 2 100-160'],
      ...['c>b 1 0-64', 'd>e 1 64-160', 'd>x 1 64-100', 'd>c 1 64-100', 'd>y 1 100-160', 'd>a 1 100-160'],
    ].toSorted(),
  );
});

test('[IS112] the first who works on a range sends codes to whoever keeps any of it and does not work on it', () => {
  expect(said('published')).toEqual(
    [
      ...['b>a 0 0-64', 'b>c 0 0-64'],
      ...['x>a 0 64-100', 'x>b 0 64-100', 'x>d 0 64-100', 'x>e 0 64-100'],
      ...['y>b 0 100-160', 'y>d 0 100-160', 'y>e 0 100-160'],
    ].toSorted(),
  );
});

test('[IS112] it sends floats to who is to have it, and to who saves it', () => {
  const all = (way: string, range: string, kinds: number) => arrayOf(kinds, (kind) => `${way} ${kind} ${range}`);
  expect(said('shared')).toEqual(
    [
      ...all('b>c', '0-64', 2), // c saves
      ...[...all('x>d', '64-100', 3), ...all('x>e', '64-100', 2)], // d is to have it, e saves; c has it
      ...[...all('y>d', '100-160', 2), ...all('y>e', '100-160', 2)],
    ].toSorted(),
  );
});

test('[IS112] tensors are as long as what is in them, and none has the key of another', () => {
  for (const { tensor: named, range } of passages) {
    expect(named.range[0]).toBe(range[0]);
    if (named.kind === 'shared') expect(tensorBytes(named)).toBe(4 * (range[1] - range[0]));
    // A scale and sixteen words of codes, or nine of the 36 elements, or fifteen of the 60.
    const words = new Map([
      [0, 17],
      [64, 10],
      [100, 16],
    ]);
    if (named.kind === 'published') expect(tensorBytes(named)).toBe(4 * (words.get(range[0]) ?? 0));
  }
  const keys = passages.map(({ from, to, tensor: named }) => JSON.stringify([from, to, named]));
  expect(new Set(keys).size).toBe(keys.length);
});

test('[IS112] [IS113] who exchanges anything are partners; where nobody did a step, only what is shared is sent', () => {
  const partners = meetingPartners(model, settings, groups, owners);
  const told = Object.fromEntries([...partners].map(([peer, others]) => [peer, [...others].toSorted().join('')]));
  expect(told).toEqual({ a: 'bcdxy', b: 'acxy', c: 'abd', d: 'acexy', e: 'dxy', x: 'abde', y: 'abde' });
  const kinds = (steps: number[]) => [
    ...new Set(passagesOf(passages, steps).map(({ island, tensor: { kind } }) => `${kind} ${island ?? ''}`)),
  ];
  expect(kinds([0, 0, 0])).toEqual(['shared ']);
  expect(kinds([0, 3, 0]).toSorted()).toEqual(['packet 1', 'published ', 'shared ']);
});
