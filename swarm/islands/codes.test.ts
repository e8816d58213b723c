import { expect, test } from 'vitest';
import { type Range, seededRandom } from '../base.ts';
import { addCodes, areSoundCodes, codeWords, PublishedCodes } from './codes.ts';
import { meetSaid } from './outer.ts';

/** Tensors of two blocks of codes and a part of one, of less than a word, and of just one block. */
const TENSORS: readonly Range[] = [
  [0, 150],
  [150, 153],
  [153, 217],
];
const SETTINGS = { outer: { learningRate: 1, momentum: 0 }, exchange: 'f32', publish: 'int8' } as const;

function published() {
  const random = seededRandom(5);
  const before = Float32Array.from({ length: 217 }, () => random() - 0.5);
  const planes = { shared: before.slice(), velocity: new Float32Array(217), published: before.slice() };
  const codes = new PublishedCodes(TENSORS);
  // Of different sizes from block to block, one of them nothing.
  const said = (_island: number, [from, to]: Range): Float32Array =>
    Float32Array.from({ length: to - from }, (_, i) =>
      from + i < 64 ? 0 : (random() - 0.5) * 10 ** (((from + i) >> 5) - 4),
    );
  for (const _ of meetSaid(SETTINGS, TENSORS, planes, [1], said, codes));
  return { before, after: planes.published, codes };
}

/** The words by hand: of a code at its place, from what is published before and after. */
test('[IS112] codes lie in blocks of each tensor: a scale, then four codes a word', () => {
  const { before, after, codes } = published();
  const words = codes.of(TENSORS);
  expect(words).toHaveLength(2 * 17 + (1 + 6) + (1 + 1) + 17);
  expect(codeWords(TENSORS)).toBe(words.length);
  const bytes = new DataView(words.buffer);
  const firsts = [0, 64, 128, 150, 153];
  const places = [0, 17, 34, 41, 43];
  for (const [i, start] of firsts.entries())
    for (let element = start; element < (firsts[i + 1] ?? 217); element++) {
      const word = places[i] ?? 0;
      const code = bytes.getInt8(4 * (word + 1) + element - start);
      expect(Math.fround((before[element] ?? 0) + bytes.getFloat32(4 * word, true) * code)).toBe(after[element]);
    }
});

test('[IS113] whoever adds them comes to the bits of who published, in whatever parts', () => {
  const { before, after, codes } = published();
  for (const cuts of [
    [0, 217],
    [0, 64, 217],
    [0, 128, 153, 217],
    [0, 64, 128, 150, 217],
  ]) {
    const plane = before.slice();
    for (const [place, to] of cuts.slice(1).entries()) {
      const from = cuts[place] ?? 0;
      const parts = TENSORS.flatMap(([first, end]): Range[] => {
        const part: Range = [Math.max(first, from), Math.min(end, to)];
        return part[0] < part[1] ? [part] : [];
      });
      for (const _ of addCodes(parts, codes.of(parts), plane));
    }
    expect(plane).toEqual(after);
  }
  expect(after).not.toEqual(before);
});

test.each([Number.NaN, Infinity, 2 ** 51])('[IS115] a scale of %d is not sound, wherever it is', (scale) => {
  const words = published().codes.of(TENSORS);
  expect(areSoundCodes(TENSORS, words)).toBe(true);
  for (const place of [0, 17, 34, 41, 43]) {
    const wrong = words.slice();
    wrong[place] = scale;
    expect(areSoundCodes(TENSORS, wrong), `word ${place}`).toBe(false);
  }
});
