import { describe, expect, it } from 'vitest';
import { peerId } from '../base.ts';
import type { OwnedRange } from '../messages/meetingWords.ts';
import { lessSent, ownersSend, repaired } from './ownerCosts.ts';

const [A, B, C] = [peerId('a'), peerId('b'), peerId('c')];
const LINES = [
  { peer: A, upload: 1_000, download: 1_000 },
  { peer: B, upload: 100, download: 1_000 },
  { peer: C, upload: 10, download: 500 },
];
const of = (range: OwnedRange['range'], have: OwnedRange['have'], keep: OwnedRange['keep']): OwnedRange => ({
  ...{ block: 'head', range, have, keep },
});

describe('[IS117] what owners send', () => {
  it('publishes codes to each copy, 17 words for 64 elements, and three planes to who had nothing of a range', () => {
    const ranges = [of([0, 640], [A], [A, B]), of([640, 1280], [B, C], [B, C])];
    const cost = ownersSend({ publish: 'int8' }, { ranges }, LINES, 5);
    // 10 blocks of 68 bytes to 5 keepers: a in 3.4 s, b in 34 s.
    expect(cost.publishing).toBeCloseTo(34, 9);
    // 640 elements of three planes, to b.
    expect(cost.moving).toBeCloseTo((640 * 12) / 1_000, 9);
    expect(cost.allowed).toBeCloseTo(34, 9);
  });

  it('sends two planes to each group that saves; what a checkpoint has is sent by the first who reads it', () => {
    const ranges = [of([0, 640], [], [A, B])];
    const cost = ownersSend({ publish: 'int8' }, { ranges, savedBy: [0, 1] }, LINES, 1);
    expect([cost.publishing, cost.moving]).toEqual([0.68, (2 * 640 * 8) / 1_000]);
  });

  it('gives one slow line no more time than ten times what the middle one takes', () => {
    const ranges = [of([0, 64], [A], [A, B]), of([64, 128], [B], [B, A]), of([128, 1280], [C], [C, A])];
    const { publishing, allowed, moving } = ownersSend({ publish: 'int8' }, { ranges }, LINES, 1);
    expect(publishing).toBeCloseTo((18 * 68) / 10, 9);
    expect(moving).toBeCloseTo((1152 * 12) / 10, 9);
    expect(allowed).toBeCloseTo((10 * (68 + 64 * 12)) / 100, 9);
  });
});

it('[IS117] in the place of one who is gone comes who is done with it first; who of both has the better uplink publishes it', () => {
  const had = [
    { block: 'head', range: [0, 100] as const, peers: [C] },
    { block: 'head', range: [100, 200] as const, peers: [B] },
    { block: 'head', range: [200, 300] as const, peers: [A, C] },
  ];
  // a and b have 100 elements each; c's line takes twice as long for as many.
  const withRoom = (...roomFor: number[]) => LINES.map((line, i) => ({ ...line, roomFor: roomFor[i] ?? 1e9 }));
  const after = (lines: ReturnType<typeof withRoom>, ranges = had) =>
    repaired(ranges, lines).map(({ peers }) => peers.join(''));
  expect(after(withRoom())).toEqual(['ac', 'ab', 'ac']);
  expect(after(withRoom().slice(2), had.slice(0, 1))).toEqual(['c']);
  // Of those who have room, if any has: a has what it holds, b one range more.
  expect(after(withRoom(100, 200))).toEqual(['bc', 'bc', 'ac']);
  expect(after(withRoom(100, 100, 200))).toEqual(['ac', 'ab', 'ac']);
});

it('[IS117] what is sent once is weighed against what is sent at each meeting that is left', () => {
  const [stay, move]: OwnedRange[][] = [[of([0, 64], [B], [B, C])], [of([0, 64], [B], [A, B])]];
  const cost = (ranges: readonly OwnedRange[]) =>
    ranges === stay ? { publishing: 2, moving: 0, allowed: 0 } : { publishing: 1, moving: 10, allowed: 0 };
  expect(lessSent([stay ?? [], move ?? []], cost, 9)).toBe(stay);
  expect(lessSent([stay ?? [], move ?? []], cost, 11)).toBe(move);
});
