/** [WP3] Whatever bytes come in place of a message or a frame: an answer with a reason, never an exception. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { PEER_EXAMPLES, SERVER_EXAMPLES } from '../testing/messageExamples.ts';
import { decodeFrame, encodeTensor, FRAME_BYTES, FRAME_KINDS } from './frame.ts';
import { decodePeerMessage, decodeServerMessage, peerMessageSchema, serverMessageSchema } from './messages.ts';

const SEED = 20_260_101;
const RUNS = { seed: SEED, numRuns: 400 };

/** Refused with a reason, or within the tensor that it names. */
function expectBounded(message: ArrayBuffer): void {
  const decoded = decodeFrame(message);
  if (!decoded.ok) {
    expect(decoded.reason).not.toBe('');
    return;
  }
  const { range, offset, payload } = decoded.value;
  expect(offset + payload.length).toBeLessThanOrEqual((range[1] - range[0]) * 4);
}

const VALID = [...PEER_EXAMPLES, ...SERVER_EXAMPLES];

const decodeBoth = (text: string): void => {
  for (const decode of [decodePeerMessage, decodeServerMessage]) {
    const decoded = decode(text);
    if (!decoded.ok) expect(decoded.reason).not.toBe('');
    else expect(JSON.stringify(decoded.value)).toBe(JSON.stringify(decoded.value, finiteAlone));
  }
};

/** JSON turns what is not finite into null without a word. */
const finiteAlone = (_key: string, value: unknown): unknown =>
  typeof value === 'number' && !Number.isFinite(value) ? 'not finite' : value;

/** One value somewhere inside is another one. */
const mutated = fc
  .tuple(fc.constantFrom(...VALID), fc.nat(), fc.jsonValue({ maxDepth: 3 }))
  .map(([message, place, value]) => {
    let at = 0;
    const keys = JSON.stringify(message).match(/"[^"]*"|\d+/g)?.length ?? 1;
    return JSON.stringify(message, (_key, inner: unknown) => (at++ === place % (keys + 1) ? value : inner)) ?? '';
  });

test('[WP3] there is an example of every message, and it is understood', () => {
  for (const [schema, examples, decode] of [
    [peerMessageSchema, PEER_EXAMPLES, decodePeerMessage],
    [serverMessageSchema, SERVER_EXAMPLES, decodeServerMessage],
  ] as const) {
    const types = schema.options.map(({ shape }) => shape.type.value);
    expect(examples.map(({ type }) => type).toSorted()).toEqual(types.toSorted());
    for (const example of examples)
      expect(decode(JSON.stringify(example)), example.type).toEqual({ ok: true, value: example });
  }
});

test('[WP3] a number that no machine has, in place of any number: refused, or a finite one', () => {
  const strange = ['-1', '1e999', '-1e308', '1e308', '0.5', 'NaN', '"7"', '-0', '9007199254740993', 'null'];
  for (const example of VALID) {
    const text = JSON.stringify(example);
    for (const { index } of text.matchAll(/(?<=[:[,])-?\d[\d.e+]*/g))
      for (const value of strange) decodeBoth(text.slice(0, index) + text.slice(index).replace(/^-?\d[\d.e+]*/, value));
  }
});

test('[WP3] arbitrary text is refused with a reason', () => {
  fc.assert(fc.property(fc.string({ maxLength: 300 }), decodeBoth), RUNS);
});

test('[WP3] arbitrary JSON is refused with a reason, also with names of Object’s own', () => {
  const keys = fc.oneof(
    fc.string(),
    fc.constantFrom('type', '__proto__', 'constructor', 'toString', 'epoch', 'shards'),
  );
  const object = fc.object({ key: keys, maxDepth: 4 });
  fc.assert(
    fc.property(object, (value) => decodeBoth(JSON.stringify(value) ?? '')),
    RUNS,
  );
  expect(({} as Record<string, unknown>).polluted).toBeUndefined();
});

test('[WP3] a valid message with one value changed, or cut anywhere', () => {
  fc.assert(fc.property(mutated, decodeBoth), RUNS);
  fc.assert(
    fc.property(mutated, fc.nat(), (text, length) => decodeBoth(text.slice(0, length % (text.length + 1)))),
    RUNS,
  );
});

test('[WP3] nesting as deep as a message is long is refused', () => {
  decodeBoth('['.repeat(100_000));
  decodeBoth(`{"type":"hello","adapter":${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}}`);
});

test('[WP6] arbitrary bytes are no frame, or a frame within every bound', () => {
  const bytes = fc.uint8Array({ maxLength: 200 });
  const header = fc
    .tuple(
      fc.constantFrom(0, 1, 2),
      fc.nat(FRAME_KINDS.length),
      fc.array(fc.nat(0xffffffff), { minLength: 7, maxLength: 7 }),
      fc.nat(64),
    )
    .map(([version, kind, words, payload]) => {
      const message = new Uint8Array(32 + payload);
      const view = new DataView(message.buffer);
      view.setUint8(0, version);
      view.setUint8(1, kind);
      words.forEach((word, index) => {
        view.setUint32(4 + 4 * index, word, true);
      });
      return message;
    });
  fc.assert(
    fc.property(fc.oneof(bytes, header), (message) => {
      expectBounded(message.slice().buffer);
    }),
    { ...RUNS, numRuns: 800 },
  );
  expect(decodeFrame(new ArrayBuffer(FRAME_BYTES + 1)).ok).toBe(false);
});

test('[WP8] a frame with one byte changed stays within the bounds of the tensor that it names', () => {
  const key = { kind: 'gradient', epoch: 1, step: 2, stage: 1, index: 3, range: [0, 20_000] } as const;
  const frames = encodeTensor(key, new Float32Array(20_000));
  fc.assert(
    fc.property(fc.nat(frames.length - 1), fc.nat(31), fc.nat(255), (frame, at, value) => {
      const message = new Uint8Array(frames[frame] ?? new ArrayBuffer(0)).slice();
      message[at] = value;
      expectBounded(message.buffer);
    }),
    { ...RUNS, numRuns: 800 },
  );
});
