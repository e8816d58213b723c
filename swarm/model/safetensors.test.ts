import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeElements, encodeHeader, headerBytes, parseHeader } from './safetensors.ts';

const encode = (text: string) => new TextEncoder().encode(text);
const reason = (header: unknown, dataBytes: number): string => {
  const parsed = parseHeader(encode(typeof header === 'string' ? header : JSON.stringify(header)), dataBytes);
  return parsed.ok ? 'accepted' : parsed.reason;
};
const tensor = (from: number, to: number, shape: unknown = [(to - from) / 4], dtype = 'F32') => ({
  dtype,
  shape,
  data_offsets: [from, to],
});

test('an encoded header is aligned, carries the format and is read back', () => {
  for (const name of ['a', 'ab', 'abcdefg', 'é']) {
    const bytes = encodeHeader(
      [
        { name, shape: [2, 3] },
        { name: 'scalar', shape: [] },
      ],
      { step: '4' },
    );
    expect(bytes.length % 8).toBe(0);
    const length = headerBytes(bytes, bytes.length + 28);
    expect(length).toEqual({ ok: true, value: bytes.length - 8 });
    const header = parseHeader(bytes.subarray(8), 28);
    if (!header.ok) throw new Error(header.reason);
    expect(header.value.metadata).toEqual({ format: 'pt', step: '4' });
    expect([...header.value.tensors]).toEqual([
      [name, { dtype: 'F32', shape: [2, 3], from: 0, to: 24 }],
      ['scalar', { dtype: 'F32', shape: [], from: 24, to: 28 }],
    ]);
  }
});

test('the length must fit the file and the format', () => {
  const start = (length: bigint) => {
    const bytes = new Uint8Array(8);
    new DataView(bytes.buffer).setBigUint64(0, length, true);
    return bytes;
  };
  const fault = (bytes: Uint8Array, fileBytes: number) => {
    const length = headerBytes(bytes, fileBytes);
    return length.ok ? 'accepted' : length.reason;
  };
  expect(fault(new Uint8Array(3), 3)).toContain('is too short');
  expect(fault(start(10n), 17)).toBe('is truncated: its header has 10 bytes, but only 9 follow');
  expect(fault(start(10n), 18)).toBe('accepted');
  expect(fault(start(2n ** 63n), 2 ** 40)).toContain('at most 16777216 were expected');
});

test.each<[string, unknown, number, string]>([
  ['text', 'not json', 0, 'is no safetensors file: its header is not a JSON object'],
  ['a list', [], 0, 'is no safetensors file: its header is not a JSON object'],
  ['metadata', { __metadata__: { a: 1 } }, 0, 'has a __metadata__ that is not an object of strings'],
  ['an entry', { a: { dtype: 'F32', shape: [1] } }, 4, 'describes the tensor a wrongly'],
  ['a negative size', { a: tensor(0, 4, [-1]) }, 4, 'describes the tensor a wrongly'],
  ['a shape', { a: tensor(0, 8, [3]) }, 8, 'gives the tensor a 8 bytes: F32 [3] needs 12'],
  ['a huge shape', { a: tensor(0, 8, [2 ** 40, 2 ** 40]) }, 8, 'gives the tensor a 8 bytes'],
  ['reversed offsets', { a: tensor(8, 0, [0]) }, 8, 'gives the tensor a -8 bytes'],
  ['an overlap', { a: tensor(0, 8), b: tensor(4, 12) }, 12, 'has tensors that overlap: b starts at 4'],
  ['a hole', { a: tensor(0, 8), b: tensor(12, 16) }, 16, 'has a hole of 4 bytes before the tensor b'],
  ['truncation', { a: tensor(0, 8) }, 7, 'is truncated: its tensors need 8 bytes, but only 7 follow the header'],
  ['a tail', { a: tensor(0, 8) }, 9, 'has 1 bytes after its last tensor'],
  ['nothing wrong', { b: tensor(4, 8), a: tensor(0, 4), empty: tensor(4, 4, [0]) }, 8, 'accepted'],
])('%s', (_, header, dataBytes, sentence) => {
  expect(reason(header, dataBytes)).toContain(sentence);
});

test('a bfloat16 is the upper half of a float32', () => {
  expect([...decodeElements('BF16', Uint8Array.of(0x80, 0x3f, 0x20, 0xc0, 0x80, 0x7f))]).toEqual([1, -2.5, Infinity]);
  expect([...decodeElements('F32', Uint8Array.of(0, 0, 0x80, 0x3f))]).toEqual([1]);
});

const anyTensor = fc.record(
  {
    dtype: fc.oneof(fc.constantFrom('F32', 'F16', 'BF16', 'BOOL', 'constructor'), fc.string()),
    shape: fc.oneof(fc.array(fc.oneof(fc.nat(4), fc.double(), fc.maxSafeInteger())), fc.jsonValue()),
    data_offsets: fc.oneof(fc.tuple(fc.nat(64), fc.nat(64)), fc.array(fc.double()), fc.jsonValue()),
  },
  { requiredKeys: [] },
);
const anyHeader = fc.oneof(
  fc.json(),
  fc
    .dictionary(
      fc.oneof(fc.constantFrom('a', '__metadata__', '__proto__'), fc.string()),
      fc.oneof(anyTensor, fc.jsonValue()),
    )
    .map((header) => JSON.stringify(header)),
);

test('whatever the header, there is a reason or tensors that cover the data', () => {
  fc.assert(
    fc.property(fc.oneof(anyHeader.map(encode), fc.uint8Array()), fc.nat(64), (bytes, dataBytes) => {
      const parsed = parseHeader(bytes, dataBytes);
      if (!parsed.ok) return parsed.reason.length > 0;
      return [...parsed.value.tensors.values()].reduce((sum, { from, to }) => sum + to - from, 0) === dataBytes;
    }),
    { seed: 1, numRuns: 2_000 },
  );
});

test('whatever the beginning, there is a reason or a length within the file', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 12 }), fc.maxSafeInteger(), (start, fileBytes) => {
      const length = headerBytes(start, Math.abs(fileBytes));
      return length.ok ? length.value <= Math.abs(fileBytes) - 8 : length.reason.length > 0;
    }),
    { seed: 2, numRuns: 2_000 },
  );
});
