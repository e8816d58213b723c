import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { peerId } from '../base.ts';
import { FRAME_BYTES } from './frame.ts';
import {
  creditBytes,
  creditContent,
  decodeEnvelope,
  ENVELOPE_BYTES_LIMIT,
  ENVELOPE_KINDS,
  encodeEnvelope,
  timeContent,
  timeOf,
} from './relay.ts';

const BOB = peerId('bob');

const reasonOf = (message: Uint8Array<ArrayBuffer>): string => {
  const decoded = decodeEnvelope(message);
  return decoded.ok ? 'ok' : decoded.reason;
};

describe('[WP9] envelopes', () => {
  test('a frame, a credit and a time come out as they went in', () => {
    const frame = Uint8Array.from({ length: FRAME_BYTES }, (_, i) => i & 255);
    const whole = decodeEnvelope(encodeEnvelope('frame', BOB, frame));
    expect(whole).toEqual({ ok: true, value: { kind: 'frame', peer: BOB, content: frame } });
    const credit = decodeEnvelope(encodeEnvelope('credit', BOB, creditContent(65_536)));
    expect(credit.ok && creditBytes(credit.value)).toBe(65_536);
    const ping = decodeEnvelope(encodeEnvelope('ping', BOB, timeContent(12.5)));
    expect(ping.ok && timeOf(ping.value)).toBe(12.5);
  });

  test('golden bytes', () => {
    expect([...encodeEnvelope('credit', BOB, creditContent(258))]).toEqual([1, 1, 3, 98, 111, 98, 2, 1, 0, 0]);
  });

  test('what is no envelope is refused with a reason', () => {
    expect(reasonOf(new Uint8Array())).toMatch('version');
    expect(reasonOf(new Uint8Array([2, 0, 1, 65, 0]))).toMatch('version 2');
    expect(reasonOf(new Uint8Array([1, 9, 1, 65, 0]))).toMatch('kind 9');
    expect(reasonOf(new Uint8Array([1, 0, 0, 65]))).toMatch('names nobody');
    expect(reasonOf(new Uint8Array([1, 0, 9, 65]))).toMatch('names nobody');
    expect(reasonOf(new Uint8Array([1, 0, 1, 65]))).toMatch('a frame of 0 bytes');
    expect(reasonOf(new Uint8Array([1, 1, 1, 65, 0]))).toMatch('a credit of 1 bytes');
    expect(reasonOf(new Uint8Array(ENVELOPE_BYTES_LIMIT + 1))).toMatch('too long');
  });

  test('random bytes never throw, and what is accepted is encoded to the same bytes', () => {
    const seed = Date.now() & 0xffffff;
    const bytes = fc.uint8Array({ maxLength: 100 }).map((tail) => new Uint8Array([...tail]));
    const nearly = fc
      .tuple(fc.constantFrom(...ENVELOPE_KINDS.keys()), fc.string({ maxLength: 12 }), bytes)
      .map(([kind, name, tail]) => {
        const text = new TextEncoder().encode(name);
        return new Uint8Array([1, kind, text.length, ...text, ...tail]);
      });
    fc.assert(
      fc.property(fc.oneof(bytes, nearly), (message) => {
        const decoded = decodeEnvelope(message);
        if (!decoded.ok) return decoded.reason !== '';
        const again = encodeEnvelope(decoded.value.kind, decoded.value.peer, decoded.value.content);
        expect([...again]).toEqual([...message]);
        return true;
      }),
      { seed },
    );
  });
});
