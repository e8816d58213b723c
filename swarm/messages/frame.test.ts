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

test('[WI4] bytes of 130 elements: 520, 260 and 3 scales with 33 words of codes', () => {
  expect(WIRE_ENCODINGS.map((encoding) => packedBytes(encoding, 130))).toEqual([520, 260, 144]);
  expect(WIRE_ENCODINGS.map((encoding) => packedWords(encoding, 1))).toEqual([1, 1, 2]);
});

describe('[WI2] a frame says how its tensor is written', () => {
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
    ['an encoding that there is not', 3 << 4, 'unknown encoding 3'],
    ['a kind that there is not', 15, 'unknown frame kind 15'],
    ['a gradient sum as halves', 2 | (1 << 4), 'a tensor of kind slice is never f16'],
    ['values as codes', 3 | (2 << 4), 'a tensor of kind values is never int8'],
    ['state as codes', 5 | (2 << 4), 'a tensor of kind state is never int8'],
    ['floats that say they are halves', 1 | (1 << 4), 'the payload is no chunk of its tensor'],
  ])('%s', (_, second, reason) => {
    expect(decodeFrame(message(KEY, second))).toEqual({ ok: false, reason });
  });
});

test('[WP18] a probe is two whole messages, a quarter of a megabyte both ways', () => {
  const frames = probeFrames(3);
  expect(frames).toHaveLength(2);
  expect(frames.reduce((sum, { byteLength }) => sum + byteLength, 0)).toBe(PROBE_BYTES);
  expect(2 * PROBE_BYTES).toBe(262_144);
  for (const frame of frames)
    expect(decodeFrame(frame)).toMatchObject({ ok: true, value: { kind: 'probe', epoch: 3 } });
});
