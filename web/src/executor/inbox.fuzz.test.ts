/** [WP20] Whatever a peer sends, the inbox neither throws nor keeps more than its bound; honest tensors still arrive. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import { encodeTensor, FRAME_KINDS } from '../../../swarm/messages/frame.ts';
import type { Incoming } from '../../../swarm/ways/partners.ts';
import { Inbox } from './inbox.ts';

const HONEST = peerId('honest');
const HOSTILE = peerId('hostile');

const TENSOR = { kind: 'activation', stage: 7, index: 9, range: [0, 20_000] } as const;
/** Of the hostile one every small tensor is expected. */
const COMING: Incoming = {
  arrival: [],
  step: [
    { from: HONEST, to: peerId('me'), tensor: TENSOR },
    ...FRAME_KINDS.flatMap((kind) =>
      [0, 1, 2].map((index) => ({
        ...{ from: HOSTILE, to: peerId('me') },
        tensor: { kind, stage: index, index, range: [0, 8] as const },
      })),
    ),
  ],
  late: [],
  heldOut: [],
  earlyBytes: new Map([[HOSTILE, 1_000]]),
};

const key = fc.record({
  kind: fc.constantFrom(...FRAME_KINDS),
  epoch: fc.nat(3),
  step: fc.nat(3),
  stage: fc.nat(2),
  index: fc.nat(2),
});

/** Real frames, some with a byte of their header changed, some only bytes. */
const frame = fc.oneof(
  fc.uint8Array({ maxLength: 120 }),
  fc
    .tuple(key, fc.integer({ min: 1, max: 12 }))
    .map(([name, elements]) => framesOf(name, elements)[0] ?? new Uint8Array()),
  fc.tuple(key, fc.nat(31), fc.nat(255)).map(([name, at, value]) => {
    const [bytes = new Uint8Array()] = framesOf(name, 8);
    bytes[at] = value;
    return bytes;
  }),
);

function framesOf(name: Omit<Parameters<typeof encodeTensor>[0], 'range'>, elements: number): Uint8Array[] {
  return encodeTensor({ ...name, range: [0, elements] }, new Float32Array(elements)).map(
    (bytes) => new Uint8Array(bytes),
  );
}

test('[WP20] arbitrary and damaged frames are dropped and counted, and honest ones arrive', async () => {
  const frames = fc.array(fc.tuple(fc.constantFrom(HONEST, HOSTILE), frame), { maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(frames, async (sent) => {
      const inbox = new Inbox(() => undefined);
      inbox.expect(1, 1, COMING, 2);
      inbox.advance(1, 1);
      for (const [from, bytes] of sent) if (from === HOSTILE) inbox.accept(from, bytes.slice().buffer);
      const name = { ...TENSOR, epoch: 1, step: 2 };
      const values = Float32Array.from({ length: 20_000 }, (_, index) => index);
      const received = inbox.receive(name, HONEST, new AbortController().signal);
      const whole = encodeTensor(name, values);
      whole.forEach((message, index) => {
        for (const [from, bytes] of sent.slice(index, index + 2)) inbox.accept(from, bytes.slice().buffer);
        inbox.accept(HONEST, message);
      });
      expect(Buffer.from((await received).buffer).equals(Buffer.from(values.buffer))).toBe(true);
      inbox.advance(9, 0);
      expect(inbox.droppedFrames).toBeLessThanOrEqual(3 * sent.length + 2);
    }),
    { seed: 20_260_102, numRuns: 60 },
  );
});
