import { expect, test } from 'vitest';
import { type Range, seededRandom } from '../base.ts';
import type { Contribution, MeetingSettings } from './outer.ts';
import { pieces } from './outer.ts';
import { decodePacket, encodePacket, packetBytes } from './packet.ts';
import { type SparseExchange, sparsify } from './sparse.ts';

const SPARSE: SparseExchange = { top: 3, chunk: 8, feedback: 0.95 };

/** What an island with these left-overs sends. */
const contributions = (exchange: MeetingSettings['exchange'], tensors: readonly Range[], values: Float32Array) =>
  tensors.flatMap((tensor) =>
    [...pieces(exchange, tensor)].map(([from, to]): Contribution => {
      const piece = values.slice(from, to);
      return exchange === 'f32' ? piece : sparsify(piece, exchange);
    }),
  );

test('[IS7] two magnitudes and 14 bits an element: 120 bytes a run of 4,096', () => {
  const exchange = { top: 64, chunk: 4096, feedback: 0.95 };
  expect(packetBytes(exchange, [[0, 4096]])).toBe(120);
  expect(packetBytes(exchange, [[0, 40_960]])).toBe(1200);
  // A last run of 10 elements has 10 entries: 148 bits after 64 · 14.
  expect(packetBytes(exchange, [[0, 4106]])).toBe(4 * (4 + Math.ceil((74 * 14) / 32)));
  expect(
    packetBytes('f32', [
      [0, 4096],
      [5000, 5001],
    ]),
  ).toBe(4 * 4097);
});

test('[IS7] the bytes of a packet', () => {
  const run = Float32Array.of(0, 4, 0, -1, 0, 0, 2, 0.5);
  // Entries of five bits: 1 high, 3 low and negative, 6 low, the lowest bits first.
  const bits = (1 << 2) | 2 | (((3 << 2) | 1) << 5) | ((6 << 2) << 10);
  const bytes = encodePacket(SPARSE, [[0, 8]], [sparsify(run, SPARSE)]);
  const view = new DataView(bytes.buffer);
  expect([view.getFloat32(0, true), view.getFloat32(4, true), view.getUint32(8, true)]).toEqual([1.5, 4, bits]);
  expect(bytes.length).toBe(12);
});

test.each<[string, MeetingSettings['exchange'], readonly Range[]]>([
  [
    'f32',
    'f32',
    [
      [0, 5000],
      [5000, 5003],
    ],
  ],
  [
    'runs that end within a word',
    SPARSE,
    [
      [0, 61],
      [61, 64],
      [64, 200],
    ],
  ],
  [
    'places of 12 bits',
    { top: 64, chunk: 4096, feedback: 0.95 },
    [
      [0, 9000],
      [9000, 9001],
    ],
  ],
  ['places of 16 bits', { top: 70, chunk: 65_536, feedback: 0.95 }, [[0, 70_000]]],
  ['every element', { top: 5, chunk: 5, feedback: 1 }, [[0, 23]]],
  ['runs of one element', { top: 1, chunk: 1, feedback: 1 }, [[0, 9]]],
])('[IS7] what is encoded is decoded: %s', (_, exchange, tensors) => {
  const random = seededRandom(11);
  const length = tensors.at(-1)?.[1] ?? 0;
  for (const density of [1, 0.3, 0.01, 0]) {
    const values = Float32Array.from({ length }, () => (random() < density ? random() - 0.5 : 0));
    const made = contributions(exchange, tensors, values);
    const bytes = encodePacket(exchange, tensors, made);
    expect(bytes.length).toBe(packetBytes(exchange, tensors));
    expect(decodePacket(exchange, tensors, bytes)).toEqual({ ok: true, value: made });
  }
});

test.each<[string, (view: DataView) => void, RegExp]>([
  ['a magnitude that is no number', (view) => view.setUint32(4, 0x7fc00000, true), /two above 0/],
  ['a magnitude past every sound one', (view) => view.setFloat32(4, 2 ** 51, true), /two above 0/],
  ['magnitudes the wrong way round', (view) => view.setFloat32(0, 5, true), /ascending order/],
  ['a magnitude below 0', (view) => view.setFloat32(0, -1, true), /two above 0/],
  ['a higher magnitude of 0', (view) => view.setFloat32(4, 0, true), /sends nothing with a magnitude|repeated/],
  ['places that fall', (view) => view.setUint32(8, 6 | (13 << 5) | (8 << 10), true), /do not ascend/],
  ['two entries of one place', (view) => view.setUint32(8, 6 | (7 << 5) | (24 << 10), true), /do not ascend/],
  ['entries after the last', (view) => view.setUint32(8, 6 | (6 << 5) | (24 << 10), true), /repeated/],
  ['only low ones', (view) => view.setUint32(8, 4 | (13 << 5) | (24 << 10), true), /no element of the higher/],
  ['only high ones', (view) => view.setUint32(8, 6 | (15 << 5) | (26 << 10), true), /lower magnitude of no/],
  ['bits past the end', (view) => view.setUint32(8, view.getUint32(8, true) | (1 << 20), true), /past its end/],
])('[IS7] refuses %s', (_, change, sentence) => {
  const bytes = encodePacket(SPARSE, [[0, 8]], [sparsify(Float32Array.of(0, 4, 0, -1, 0, 0, 2, 0.5), SPARSE)]);
  change(new DataView(bytes.buffer));
  const decoded = decodePacket(SPARSE, [[0, 8]], bytes);
  expect(decoded.ok ? 'decoded' : decoded.reason).toMatch(sentence);
});

test('[IS7] refuses a place past a shorter run, another length, and differences that are no numbers', () => {
  const bytes = encodePacket(SPARSE, [[0, 5]], [sparsify(Float32Array.of(0, 4, 0, -1, 2), SPARSE)]);
  new DataView(bytes.buffer).setUint32(8, 6 | (13 << 5) | (20 << 10), true);
  expect(decodePacket(SPARSE, [[0, 5]], bytes)).toMatchObject({ ok: false, reason: /place past its 5 elements/ });
  expect(decodePacket(SPARSE, [[0, 5]], bytes.subarray(1))).toMatchObject({ ok: false, reason: /11 bytes where 12/ });
  const dense = encodePacket('f32', [[0, 2]], [Float32Array.of(1, Number.NaN)]);
  expect(decodePacket('f32', [[0, 2]], dense)).toMatchObject({ ok: false, reason: /no number/ });
});

test('[IS7] bytes by chance never throw, and what is decoded of them is encoded as the same bytes', () => {
  const random = seededRandom(5);
  const tensors: readonly Range[] = [[0, 13]];
  let decodedOnes = 0;
  for (let i = 0; i < 3000; i++) {
    const bytes = encodePacket(
      SPARSE,
      tensors,
      contributions(
        SPARSE,
        tensors,
        Float32Array.from({ length: 13 }, () => (random() < 0.5 ? random() - 0.5 : 0)),
      ),
    );
    for (let flips = 0; flips < i % 4; flips++) {
      const at = Math.floor(random() * bytes.length);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << Math.floor(random() * 8));
    }
    const decoded = decodePacket(SPARSE, tensors, bytes);
    if (!decoded.ok) continue;
    decodedOnes++;
    expect(encodePacket(SPARSE, tensors, decoded.value)).toEqual(bytes);
  }
  expect(decodedOnes).toBeGreaterThan(1000);
});
