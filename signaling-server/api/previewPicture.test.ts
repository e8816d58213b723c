import { inflateSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { arrayOf } from '../../swarm/base.ts';
import { placesFor } from '../../swarm/shoalPlaces.ts';
import { png, previewPicture } from './previewPicture.ts';
import { strokeText } from './strokeText.ts';

/** The pixels of a picture that has one block of data. */
function pixelsOf(picture: Buffer, width: number): number[][] {
  const at = picture.indexOf('IDAT');
  const rows = inflateSync(picture.subarray(at + 4, at + 4 + picture.readUInt32BE(at - 4)));
  return arrayOf(rows.length / (width + 1), (row) => [
    ...rows.subarray(row * (width + 1) + 1, (row + 1) * (width + 1)),
  ]);
}

it('keeps every pixel, and the colours', () => {
  const picture = png(Uint8Array.from([0, 1, 2, 2, 1, 0]), 3, ['#000000', '#ff8000', '#ffffff']);
  expect(picture.subarray(1, 4).toString()).toBe('PNG');
  // The CRC-32 of the chunk IEND, which every PNG ends with.
  expect(picture.readUInt32BE(picture.length - 4)).toBe(0xae426082);
  expect([picture.readUInt32BE(16), picture.readUInt32BE(20)]).toEqual([3, 2]);
  expect(picture.includes(Buffer.from('000000ff8000ffffff', 'hex'))).toBe(true);
  expect(pixelsOf(picture, 3)).toEqual([
    [0, 1, 2],
    [2, 1, 0],
  ]);
});

const NO_WORDS = { title: '', words: '' };

it('the preview has a fish of its own colour for each donor, and the curve falls', () => {
  const counts = (donors: number): number => {
    const pixels = pixelsOf(previewPicture({ donors, ...NO_WORDS, curve: [] }), 1_200).flat();
    return pixels.filter((colour) => colour === 2).length;
  };
  expect(counts(0)).toBe(0);
  const areas = placesFor(3)
    .slice(0, 3)
    .map(({ scale }) => scale ** 2);
  const sum = areas.reduce((a, b) => a + b);
  expect(counts(1) / counts(3)).toBeCloseTo((areas[0] ?? 0) / sum, 1);
  const curve = [
    [1, 4],
    [100, 1],
  ] as const;
  const pixels = pixelsOf(previewPicture({ donors: 0, ...NO_WORDS, curve }), 1_200);
  const rowOf = (column: number): number => pixels.findIndex((row) => row[column] === 3);
  expect(rowOf(100)).toBeLessThan(rowOf(600));
  expect(rowOf(600)).toBeLessThan(rowOf(1_100));
});

it('the preview says what it is, in letters that fit however many they are, and what has no letter leaves room', () => {
  const columnsOf = (title: string): number[] => {
    const pixels = pixelsOf(previewPicture({ donors: 0, title, words: '', curve: [] }), 1_200);
    return pixels[0]?.flatMap((_, column) => (pixels.some((row) => row[column] === 4) ? column : [])) ?? [];
  };
  const ends = (title: string): readonly [number, number] => {
    const columns = columnsOf(title);
    return [columns.at(0) ?? 0, columns.at(-1) ?? 0];
  };
  expect(columnsOf('')).toEqual([]);
  expect(columnsOf('…')).toEqual([]);
  const [left, right] = ends('Help train it');
  expect([left + right, left > 300]).toEqual([expect.closeTo(1_200, -1), true]);
  const [first, last] = ends('Help train '.repeat(20));
  expect([first >= 80, last <= 1_120]).toEqual([true, true]);
});

it('every letter, digit and mark of a name has lines, within its own room', () => {
  const all = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,:';
  for (const letter of all) {
    const { lines, width } = strokeText(letter);
    expect(lines.length, letter).toBeGreaterThan(0);
    for (const [x, y] of lines.flat())
      expect([x >= 0 && x <= width + 1e-9, y >= 0 && y <= 8], letter).toEqual([true, true]);
  }
  expect(new Set([...all].map((letter) => JSON.stringify(strokeText(letter)))).size).toBe(all.length);
});
