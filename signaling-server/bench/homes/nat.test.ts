import { describe, expect, test } from 'vitest';
import { type Endpoint, Nat } from './nat.ts';
import { stunAnswer } from './stun.ts';

const PORTS = { first: 50_000, count: 4 };
const A: Endpoint = { home: 1, port: 50_001 };
const OTHER_PORT: Endpoint = { home: 1, port: 50_002 };
const B: Endpoint = { home: 2, port: 50_001 };

describe('address translation', () => {
  test('none: every port is its own, and all are let in', () => {
    const nat = new Nat('none', PORTS);
    expect(nat.out(50_003, A)).toBe(50_003);
    expect(nat.in(50_002, B)).toBe(50_002);
  });

  test('fullCone: one public port, and whoever knows it is let in', () => {
    const nat = new Nat('fullCone', PORTS);
    const port = nat.out(50_003, A) ?? 0;
    expect(nat.out(50_003, B)).toBe(port);
    expect([A, OTHER_PORT, B].map((from) => nat.in(port, from))).toEqual([50_003, 50_003, 50_003]);
    expect(nat.in(port === 50_000 ? 50_001 : 50_000, A)).toBeNull();
  });

  test('restricted: one public port, and only who was sent to is let in', () => {
    const nat = new Nat('restricted', PORTS);
    const port = nat.out(50_003, A) ?? 0;
    expect([A, OTHER_PORT, B].map((from) => nat.in(port, from))).toEqual([50_003, null, null]);
    expect(nat.out(50_003, B)).toBe(port);
    expect(nat.in(port, B)).toBe(50_003);
  });

  test('symmetric: a public port for each whom the home sends to, who alone is let in by it', () => {
    const nat = new Nat('symmetric', PORTS);
    const ports = [A, OTHER_PORT, B].map((to) => nat.out(50_003, to) ?? 0);
    expect(new Set(ports).size).toBe(3);
    expect(nat.out(50_003, B)).toBe(ports[2]);
    expect(ports.map((port) => nat.in(port, A))).toEqual([50_003, null, null]);
  });

  test('no public port is given twice, and none when all are', () => {
    const nat = new Nat('restricted', PORTS);
    const ports = [0, 1, 2, 3].map((index) => nat.out(50_000 + index, A));
    expect(new Set(ports).size).toBe(4);
    expect(nat.out(50_004, A)).toBeNull();
  });
});

test('a STUN answer has the address of RFC 5769’s example', () => {
  // 2.2: XOR-MAPPED-ADDRESS of 192.0.2.1, port 32853, with this transaction id.
  const request = Buffer.from('000100002112a442b7e7a701bc34d686fa87dfae', 'hex');
  const answer = stunAnswer(request, '192.0.2.1', 32_853);
  expect(answer?.toString('hex')).toBe('0101000c2112a442b7e7a701bc34d686fa87dfae' + '002000080001a147e112a643');
});

test.each(['', '00', '010100002112a442b7e7a701bc34d686fa87dfae', '0001000000000000b7e7a701bc34d686fa87dfae'])(
  '"%s" is no question',
  (hex) => expect(stunAnswer(Buffer.from(hex, 'hex'), '192.0.2.1', 1)).toBeNull(),
);
