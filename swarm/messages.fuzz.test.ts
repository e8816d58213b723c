/** [WP] Whatever bytes come in place of a message or a frame: an answer with a reason, never an exception. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeFrame, encodeTensor, FRAME_BYTES, FRAME_KINDS } from './frame.ts';
import { decodePeerMessage, decodeServerMessage, PROTOCOL_VERSION } from './messages.ts';

const SEED = 20_260_101;
const RUNS = { seed: SEED, numRuns: 200 };

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

const adapter = { vendor: 'v', architecture: 'a', description: 'd', software: true, browser: 'b' };
const VALID: readonly unknown[] = [
  { type: 'hello', protocol: PROTOCOL_VERSION, adapter },
  { type: 'signal', to: 'p', epoch: 1, data: 'offer' },
  { type: 'ready', epoch: 3, memoryBytes: 12 },
  { type: 'fault', epoch: 1, reason: 'linkLost', about: 'p', detail: 'd' },
  { type: 'uploaded', epoch: 1, step: 2, shards: [{ block: 'head', range: [0, 4], hash: 'a'.repeat(64) }] },
  { type: 'start', epoch: 1, step: 2 },
  { type: 'committed', epoch: 1, step: 2, clipScale: 1, learningRate: 0.1, checkpoint: true },
];

const decodeBoth = (text: string): void => {
  for (const decode of [decodePeerMessage, decodeServerMessage]) {
    const decoded = decode(text);
    if (!decoded.ok) expect(decoded.reason).not.toBe('');
  }
};

/** One value somewhere inside is another one. */
const mutated = fc
  .tuple(fc.constantFrom(...VALID), fc.nat(), fc.jsonValue({ maxDepth: 3 }))
  .map(([message, place, value]) => {
    let at = 0;
    const keys = JSON.stringify(message).match(/"[^"]*"|\d+/g)?.length ?? 1;
    return JSON.stringify(message, (_key, inner: unknown) => (at++ === place % (keys + 1) ? value : inner)) ?? '';
  });

test('[WP] arbitrary text is refused with a reason', () => {
  fc.assert(fc.property(fc.string({ maxLength: 300 }), decodeBoth), RUNS);
});

test('[WP] arbitrary JSON is refused with a reason, also with names of Object’s own', () => {
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

test('[WP] a valid message with one value changed, or cut anywhere', () => {
  fc.assert(fc.property(mutated, decodeBoth), RUNS);
  fc.assert(
    fc.property(mutated, fc.nat(), (text, length) => decodeBoth(text.slice(0, length % (text.length + 1)))),
    RUNS,
  );
});

test('[WP] nesting as deep as a message is long is refused', () => {
  decodeBoth('['.repeat(100_000));
  decodeBoth(`{"type":"hello","adapter":${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}}`);
});

test('[WP] arbitrary bytes are no frame, or a frame within every bound', () => {
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

test('[WP] a frame with one byte changed stays within the bounds of the tensor that it names', () => {
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
