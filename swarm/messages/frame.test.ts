/** Tensor frames: what a header says of a packed tensor, and what is refused. */
import { describe, expect, test } from 'vitest';
import { packedBytes, packedWords, WIRE_ENCODINGS } from '../wire.ts';
import {
  decodeFrame,
  encodeTensor,
  HEADER_BYTES,
  PAYLOAD_BYTES,
  PROBE_BYTES,
  probeFrames,
  type TensorKey,
  tensorBytes,
} from './frame.ts';

const KEY: TensorKey = { kind: 'activation', epoch: 1, step: 2, stage: 3, index: 4, range: [0, 130] };

/** The one message of a small tensor, with its second byte changed. */
function message(key: TensorKey, second?: number): ArrayBuffer {
  const [only] = encodeTensor(key, new Float32Array(tensorBytes(key) / 4));
  if (!only) throw new Error('no message');
  if (second !== undefined) new DataView(only).setUint8(1, second);
  return only;
}

test('[WI4] [WI13] bytes of 130 elements: 520, 260, 3 scales with 33 words of codes, 5 tiles with a word of rotations', () => {
  expect(WIRE_ENCODINGS.map((encoding) => packedBytes(encoding, 130))).toEqual([520, 260, 144, 104]);
  expect(WIRE_ENCODINGS.map((encoding) => packedWords(encoding, 1))).toEqual([1, 1, 2, 6]);
});

describe('[WI2] a frame says how its tensor is written', () => {
  test.each(['slice', 'values'] as const)('[WI2] [WI30] %s as int8: there and back', (kind) => {
    const key = { ...KEY, kind, encoding: 'int8' } as const;
    expect(decodeFrame(message(key))).toMatchObject({ ok: true, value: { kind, encoding: 'int8' } });
  });

  test.each(WIRE_ENCODINGS)('%s: there and back', (encoding) => {
    const key = { ...KEY, encoding };
    expect(decodeFrame(message(key))).toMatchObject({ ok: true, value: key });
    expect(message(key).byteLength).toBe(HEADER_BYTES + packedBytes(encoding, 130));
  });

  test('f32 is the frame that it always was', () => {
    expect([...new Uint8Array(message(KEY), 0, 2)]).toEqual([1, 0]);
    expect(message({ ...KEY, encoding: 'f32' })).toEqual(message(KEY));
  });

  test('a long one is cut into whole messages of words', () => {
    const words = Float32Array.from({ length: packedWords('int8', 100_000) }, (_, i) => i);
    const messages = encodeTensor({ ...KEY, range: [0, 100_000], encoding: 'int8' }, words);
    const whole = new Uint8Array(words.byteLength);
    for (const one of messages) {
      const frame = decodeFrame(one);
      if (!frame.ok) throw new Error(frame.reason);
      whole.set(frame.value.payload, frame.value.offset);
    }
    expect(messages).toHaveLength(Math.ceil(words.byteLength / PAYLOAD_BYTES));
    expect(new Float32Array(whole.buffer)).toEqual(words);
  });

  test.each([
    ['an encoding that there is not', 4 << 4, 'unknown encoding 4'],
    ['a gradient sum as halves', 2 | (1 << 4), 'a tensor of kind slice is never f16'],
    ['values as int4', 3 | (3 << 4), 'a tensor of kind values is never int4'],
    ['sums as halves', 2 | (1 << 4), 'a tensor of kind slice is never f16'],
    ['state as codes', 5 | (2 << 4), 'a tensor of kind state is never int8'],
    ['floats that say they are halves', 1 | (1 << 4), 'the payload is no chunk of its tensor'],
  ])('%s', (_, second, reason) => {
    expect(decodeFrame(message(KEY, second))).toEqual({ ok: false, reason });
  });
});

test('[WP6] [WP7] the bytes of a frame', () => {
  const key = { kind: 'slice', epoch: 0x01020304, step: 5, stage: 0x0607, index: 8, range: [9, 11] } as const;
  const bytes = new Uint8Array(encodeTensor(key, Float32Array.of(1, -2))[0] ?? new ArrayBuffer(0));
  const header = '01 02 0706 04030201 05000000 08000000 09000000 0b000000 00000000 08000000';
  const payload = '0000803f 000000c0';
  expect(Buffer.from(bytes).toString('hex')).toBe(`${header} ${payload}`.replaceAll(' ', ''));
});

describe('[WP8] chunks of a tensor', () => {
  const frames = encodeTensor({ ...KEY, range: [0, 20_000] }, new Float32Array(20_000));
  const changed = (at: number, value: number): ReturnType<typeof decodeFrame> => {
    const copy = frames[1]?.slice(0) ?? new ArrayBuffer(0);
    new DataView(copy).setUint32(at, value, true);
    return decodeFrame(copy);
  };

  test('are cut every 65,504 bytes', () => {
    expect(frames.map(({ byteLength }) => byteLength)).toEqual([65_536, 80_000 - 65_504 + 32]);
    expect(changed(24, 65_504)).toMatchObject({ ok: true, value: { offset: 65_504 } });
  });

  test.each([
    ['an offset between two chunks', 24, 65_500, 'the payload is no chunk of its tensor'],
    ['an offset past the tensor', 24, 131_008, 'the payload is no chunk of its tensor'],
    ['a payload of another length', 28, 14_492, 'the payload length differs from the message'],
    ['a tensor of more than 256 MiB', 20, 2 ** 26 + 1, 'a tensor of 268435460 bytes is out of bounds'],
    ['a tensor of nothing', 20, 0, 'a tensor of 0 bytes is out of bounds'],
  ])('%s', (_, at, value, reason) => {
    expect(changed(at, value)).toEqual({ ok: false, reason });
  });

  test('one of nothing, where the tensor ends', () => {
    const [whole] = encodeTensor({ ...KEY, range: [0, 16_376] }, new Float32Array(16_376));
    const copy = whole?.slice(0, 32) ?? new ArrayBuffer(0);
    new DataView(copy).setUint32(24, 65_504, true);
    new DataView(copy).setUint32(28, 0, true);
    expect(decodeFrame(copy)).toEqual({ ok: false, reason: 'the payload is no chunk of its tensor' });
  });

  test('[WP2] another version', () => {
    const copy = frames[0]?.slice(0) ?? new ArrayBuffer(0);
    new DataView(copy).setUint8(0, 2);
    expect(decodeFrame(copy)).toEqual({ ok: false, reason: 'frame version 2, expected 1' });
  });
});

test('[WP29] a probe is two whole messages, a quarter of a megabyte both ways', () => {
  const frames = probeFrames(3);
  expect(frames).toHaveLength(2);
  expect(frames.reduce((sum, { byteLength }) => sum + byteLength, 0)).toBe(PROBE_BYTES);
  expect(2 * PROBE_BYTES).toBe(262_144);
  for (const frame of frames)
    expect(decodeFrame(frame)).toMatchObject({ ok: true, value: { kind: 'probe', epoch: 3 } });
});
