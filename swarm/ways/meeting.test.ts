import { expect, test } from 'vitest';
import { peerId, type Range } from '../base.ts';
import { packetBytes } from '../islands/packet.ts';
import { tensorBytes } from '../messages/frame.ts';
import type { Model } from '../model/model.ts';
import type { Shard } from '../plan/plan.ts';
import { outlineModel } from '../testing/randomPlan.ts';
import { meetingCuts, meetingPartners, meetingPassages } from './meeting.ts';

const shard = (keepers: string, range: Range): Shard => {
  const [peer = peerId('?'), ...replicas] = [...keepers].map(peerId);
  return { peer, range, replicas };
};

/** One block: two tensors of 100 and 30 elements. */
const outline = outlineModel(1, false);
const tensor = { name: 't', shape: [1], initial: 'normal' as const };
const tensors = [
  { ...tensor, elements: 100, offset: 0 },
  { ...tensor, elements: 30, offset: 100 },
];
const model: Model = { ...outline, blocks: [{ name: 'head', elements: 130, tensors }] };
const settings = { exchange: { top: 2, chunk: 64, feedback: 0.5 }, publish: 'f32' } as const;
/** One group keeps the block whole with a copy and does two islands, the other has it in two shards. */
const groups = [
  { islands: [0, 2], state: [{ block: 'head' as const, shards: [shard('ab', [0, 130])] }] },
  { islands: [1], state: [{ block: 'head' as const, shards: [shard('c', [0, 64]), shard('de', [64, 130])] }] },
];
const passages = meetingPassages(model, settings, groups);

test('[IS42] a primary tells every other keeper of any part of its range, its own copies too, and nobody else does', () => {
  const said = passages.map(({ from, to, island, range }) => `${from}>${to} ${island} ${range.join('-')}`);
  expect(said.toSorted()).toEqual(
    [
      ...['a>b 0 0-130', 'a>b 2 0-130', 'a>c 0 0-64', 'a>c 2 0-64', 'a>d 0 64-130', 'a>d 2 64-130'],
      ...['a>e 0 64-130', 'a>e 2 64-130', 'c>a 1 0-64', 'c>b 1 0-64', 'd>a 1 64-130', 'd>b 1 64-130', 'd>e 1 64-130'],
    ].toSorted(),
  );
});

test('[IS42] a packet is named by its island and where it begins, and is as long as its words', () => {
  for (const { tensor: named, island, range } of passages) {
    const parts = [range].flatMap(([from, to]): Range[] =>
      [[from, Math.min(to, 100)] as const, [Math.max(from, 100), to] as const].filter(([a, b]) => a < b),
    );
    expect(tensorBytes(named)).toBe(packetBytes(settings.exchange, parts));
    expect(named).toMatchObject({ kind: 'packet', stage: island, index: 0 });
    expect(named.range[0]).toBe(range[0]);
  }
  // Of two magnitudes and two entries of eight bits each run: 64, 36 and 30 elements.
  const whole = passages.find(({ from, to }) => from === 'a' && to === 'b');
  expect(whole && tensorBytes(whole.tensor)).toBe(3 * 8 + 2 * 4);
});

test('[IS42] who exchanges packets are partners, others are not', () => {
  const partners = meetingPartners(model, settings, groups);
  const told = Object.fromEntries([...partners].map(([peer, others]) => [peer, [...others].toSorted().join('')]));
  expect(told).toEqual({ a: 'bcde', b: 'acd', c: 'ab', d: 'abe', e: 'ad' });
});

test('[IS42] what is long is cut in pieces that begin with runs', () => {
  const elements = 3_000_000;
  const long: Model = {
    ...outline,
    blocks: [{ name: 'head', elements, tensors: [{ ...tensor, elements, offset: 0 }] }],
  };
  const chunked = { exchange: { top: 2, chunk: 1_000, feedback: 0.5 }, publish: 'f32' } as const;
  const state = (peer: string) => [{ block: 'head' as const, shards: [shard(peer, [0, elements])] }];
  const found = meetingPassages(long, chunked, [
    { islands: [0], state: state('a') },
    { islands: [1], state: state('b') },
  ]);
  expect(found.filter(({ from }) => from === 'b').map(({ range }) => range)).toEqual([
    ...[
      [0, 1_048_000],
      [1_048_000, 2_096_000],
      [2_096_000, 3_000_000],
    ],
  ]);
});

test('[IS43] results are compared in parts that every group has whole', () => {
  expect(meetingCuts(groups)('head', [0, 130])).toEqual([
    [0, 64],
    [64, 130],
  ]);
  expect(meetingCuts(groups)('head', [64, 130])).toEqual([[64, 130]]);
});
