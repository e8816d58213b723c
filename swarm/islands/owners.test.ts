import { describe, expect, test } from 'vitest';
import { arrayOf, at, invariant, peerId, type Range, seededRandom, totalOf } from '../base.ts';
import { modelFromConfig } from '../model/families.ts';
import type { MeetingSettings } from './outer.ts';
import { meetingTimes, ownerLine, sharesOf, toEveryGroup, wantsOwners } from './ownerShares.ts';
import { type Owned, ownersOf } from './owners.ts';

const made = modelFromConfig({
  ...{ model_type: 'gpt2', n_head: 4, n_positions: 100, vocab_size: 1000, n_layer: 6, n_embd: 256 },
  tie_word_embeddings: false,
});
invariant(made.ok, 'a model');
const MODEL = made.value;
const ELEMENTS = totalOf(MODEL.blocks, ({ elements }) => elements);
const CHUNK = 4096;
const SETTINGS: MeetingSettings = {
  outer: { learningRate: 1, momentum: 0.5 },
  exchange: { top: 64, chunk: CHUNK, feedback: 0.95 },
  publish: 'int8',
};

/** Bytes of whole runs: 64 elements of 14 bits and two floats of 4,096; of whole blocks of codes: 17 words of 64. */
const [SAID, PUBLISHED] = [120 / 4096, 68 / 64];

interface Line {
  readonly upload: number;
  readonly download: number;
  readonly sends: number;
  readonly gets: number;
  readonly room?: number;
}
const named = (lines: readonly Line[]) => lines.map((line, i) => ({ ...line, peer: peerId(`p${1000 + i}`) }));

function randomLines(seed: number, count: number): Line[] {
  const random = seededRandom(seed);
  return arrayOf(count, () => ({
    upload: 1e5 * 100 ** random(),
    download: 1e6 * 30 ** random(),
    sends: (2 * SAID * ELEMENTS * random()) / 2,
    gets: PUBLISHED * ELEMENTS * random(),
  }));
}

const lengthOf = (owned: readonly Owned[]): number => owned.reduce((sum, { range: [from, to] }) => sum + to - from, 0);

describe('ranges of owners', () => {
  test.each([1, 2, 3, 4, 5, 6, 7, 8])('cover the model, each with two donors: seed %d', (seed) => {
    const lines = named(randomLines(seed, 1 + seed * 3));
    const owned = ownersOf(MODEL, SETTINGS, lines);
    for (const { name, elements, tensors } of MODEL.blocks) {
      const ranges = owned.flatMap(({ block, range }) => (block === name ? [range] : []));
      // Each begins where the one before ends.
      expect(ranges.map(([from]) => from)).toEqual([0, ...ranges.slice(0, -1).map(([, to]) => to)]);
      expect(ranges.at(-1)?.[1]).toBe(elements);
      const starts = new Set(
        tensors.flatMap(({ offset, elements: size }) =>
          arrayOf(Math.ceil(size / CHUNK), (run) => offset + run * CHUNK),
        ),
      );
      for (const [from] of ranges) expect(starts.has(from)).toBe(true);
    }
    for (const { peers } of owned) expect(new Set(peers).size).toBe(2);
    // What one owns lies in a row.
    const owners = owned.map(({ peers }) => at(peers, 0));
    const changes = owners.filter((owner, i) => owner !== owners[i - 1]);
    expect(changes).toEqual([...new Set(owners)].toSorted());
    // Shares, but for a run at each end of a part.
    const shares = sharesOf(lines);
    for (const [i, { peer }] of lines.entries())
      for (const [place, of] of [shares?.owned, shares?.copied].entries()) {
        const parts = owned.filter(({ peers }) => peers[place] === peer);
        const error = Math.abs(lengthOf(parts) - at(of ?? [], i) * ELEMENTS);
        expect(error).toBeLessThanOrEqual(2 * CHUNK * (parts.length + 1));
      }
    expect(ownersOf(MODEL, SETTINGS, lines.toReversed())).toEqual(owned);
  });

  test('a donor alone is the only one', () => {
    const owned = ownersOf(MODEL, SETTINGS, named(randomLines(1, 1)));
    expect(owned).toEqual(
      MODEL.blocks.map(({ name: block, elements }) => ({
        block,
        range: [0, elements] satisfies Range,
        peers: ['p1000'],
      })),
    );
  });

  test('four alike: a quarter each, the copy half a round further', () => {
    const line = { upload: 1e6, download: 1e7, sends: 0, gets: PUBLISHED * ELEMENTS };
    const flat = { blocks: [{ name: 'head', elements: 64 * CHUNK, tensors: [] }] } as const;
    const tensors = [{ name: 'w', shape: [64 * CHUNK], elements: 64 * CHUNK, offset: 0, initial: 'normal' }] as const;
    const owned = ownersOf({ blocks: [{ ...flat.blocks[0], tensors }] }, SETTINGS, named([line, line, line, line]));
    expect(owned.map(({ range, peers }) => [...range.map((place) => place / CHUNK), ...peers])).toEqual([
      [0, 16, 'p1000', 'p1002'],
      [16, 32, 'p1001', 'p1003'],
      [32, 48, 'p1002', 'p1000'],
      [48, 64, 'p1003', 'p1001'],
    ]);
  });

  test('who would own less than a ten-thousandth owns nothing', () => {
    const line = { upload: 1e6, download: 1e9, sends: 0, gets: PUBLISHED * ELEMENTS };
    const lines = named([line, line, { ...line, upload: 150 }, { ...line, upload: 50 }]);
    const shares = sharesOf(lines)?.owned ?? [];
    expect(shares.slice(2)).toEqual([0, 0]);
    expect(sharesOf(named([line, line, { ...line, upload: 500 }]))?.owned[2]).toBeCloseTo(500 / 2_000_500, 9);
  });
});

describe('shares of owners', () => {
  test('are the uplink that packets leave over, in the least time', () => {
    const lines = [3e6, 2e6, 1e6].map((upload, i) => ({
      ...{ upload, download: Infinity },
      ...{ sends: [1e6, 2e6, 3e5][i] ?? 0, gets: 1e7 },
    }));
    const found = sharesOf(lines);
    // All lines are full until the end: what is sent in all, by what they carry.
    const seconds = (3 * 1e7 + 1e6 + 2e6 + 3e5) / 6e6;
    expect(found?.seconds).toBeCloseTo(seconds, 6);
    for (const [i, { upload, sends }] of lines.entries())
      expect(found?.owned[i]).toBeCloseTo((upload * seconds - sends) / 3e7, 6);
  });

  test('nobody has more than there is room for, as owner and as copy, nor of one place both', () => {
    const line = { upload: 1e6, download: 1e12, sends: 0, gets: 1e7 };
    const found = sharesOf([{ ...line, room: 0.25 }, line, { ...line, room: 0.8 }]);
    for (const [i, room] of [0.25, 1, 0.8].entries())
      expect((found?.owned[i] ?? 2) + (found?.copied[i] ?? 2)).toBeLessThanOrEqual(room + 1e-6);
    expect(
      sharesOf([
        { ...line, room: 0.4 },
        { ...line, room: 0.9 },
        { ...line, room: 0.6 },
      ]),
    ).toBeNull();
  });

  test('a line that carries nearly all of it owns nearly all', () => {
    const line = { upload: 1e4, download: 1e12, sends: 0, gets: 1e7 };
    const found = sharesOf([{ ...line, upload: 1e7 }, line, line]);
    expect(found?.owned[0]).toBeCloseTo(1e7 / (1e7 + 2e4), 6);
    expect(found?.copied[0]).toBeLessThanOrEqual(2e4 / 1e7);
  });

  /** Alone in their groups, all alike, with any downlink: (2s + p) / u with owners, (K − 1)·s / u without. */
  test('are wanted where groups meet clearly sooner with them', () => {
    const elements = 4096 * 1000;
    const groups = (count: number) =>
      arrayOf(count, (i) => [{ peer: peerId(`p${i}`), upload: 1e6, download: Infinity }]);
    const least = 1 + 1.5 * (2 + PUBLISHED / SAID);
    expect(least).toBeCloseTo(58.4, 1);
    expect(wantsOwners(meetingTimes(elements, SETTINGS, groups(Math.floor(least))))).toBe(false);
    expect(wantsOwners(meetingTimes(elements, SETTINGS, groups(Math.ceil(least))))).toBe(true);
    // Of two donors a group each has half of its packets, and of what is published.
    const pairs = groups(120).flatMap(([one], i, all) =>
      i % 2 === 0 ? [[one, all[i + 1]?.[0]].flatMap((own) => own ?? [])] : [],
    );
    expect(pairs).toHaveLength(60);
    expect(wantsOwners(meetingTimes(elements, SETTINGS, pairs))).toBe(true);
    expect(wantsOwners(meetingTimes(elements, SETTINGS, pairs.slice(0, 58)))).toBe(false);
    // One slow line: without owners all of what it says goes to each.
    const slow = groups(12).map(([donor], i) => [
      {
        ...at(
          [donor].flatMap((own) => own ?? []),
          0,
        ),
        upload: i === 0 ? 1e4 : 1e7,
      },
    ]);
    expect(wantsOwners(meetingTimes(elements, SETTINGS, slow))).toBe(true);
  });
});

test('[IS42] what a meeting takes each donor without owners: its packets to every other group, by its uplink or its downlink', () => {
  const groups = [1e3, 2e3, 4e3].map((upload, i) => ({
    donors: [{ peer: peerId(`p${i}`), upload, download: i === 2 ? 500 : 1e5, primary: 40_960, kept: 40_960 }],
    turns: 1,
  }));
  const packet = 10 * ((64 * 14) / 8 + 8);
  expect(toEveryGroup(40_960, SETTINGS, groups)).toEqual([(2 * packet) / 1e3, (2 * packet) / 2e3, (2 * packet) / 500]);
  expect(ownerLine(SETTINGS, { upload: 1, download: 1 }, 40_960, 64).sends).toBe(2 * packet);
  expect(ownerLine(SETTINGS, { upload: 1, download: 1 }, 40_960, 64).gets).toBe(68);
});
