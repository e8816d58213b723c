import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { digester } from './digest.ts';

const hash = (text: string): string => createHash('sha256').update(text).digest('hex');
const digestOf = (value: unknown): string => digester(hash)(value);

test('[RC2] values that differ anywhere have other digests', () => {
  const values = [
    ...[0, 1, '0', 'a', '', true, null, undefined, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY],
    ...[[], {}, [1], ['1'], [[1]], [1, 2], [12], { 1: 2 }, [undefined], [null]],
    ...[{ a: 1 }, { a: null }, { a: undefined, b: 1 }, { a: '1,"b":2' }, { a: 1, b: 2 }],
  ];
  expect(new Set(values.map(digestOf)).size).toBe(values.length);
});

test('[RC2] what is no plain data has none', () => {
  for (const value of [new Map(), new Set(), new Date(), () => 1])
    expect(() => digestOf({ value })).toThrow('plain data');
});

test('[RC2] neither the order of properties, nor one that is undefined, nor the sign of 0 counts', () => {
  expect(digestOf({ a: 1, b: [{ c: 2, d: undefined }] })).toBe(digestOf({ b: [{ c: 2 }], a: 1 }));
  expect(digestOf([-0])).toBe(digestOf([0]));
});

test('[RC2] what JSON has carried has the digest that it had, and what is remembered changes none', () => {
  fc.assert(
    fc.property(fc.array(fc.jsonValue()), (values) => {
      const remembers = digester(hash);
      const before = remembers(values);
      expect(remembers([values, values])).toBe(digestOf(JSON.parse(JSON.stringify([values, values]))));
      expect(remembers(values)).toBe(before);
      expect(before).toBe(digestOf(values));
    }),
  );
});

test('[RC2] a part that has not changed is not looked at again', () => {
  const hashed: string[] = [];
  const digest = digester((text) => {
    hashed.push(text);
    return hash(text);
  });
  const large = { peers: Array.from({ length: 1_000 }, (_, index) => `peer ${index}`) };
  digest({ large, step: 1 });
  const length = hashed.splice(0).join('').length;
  digest({ large, step: 2 });
  expect(length).toBeGreaterThan(10_000);
  expect(hashed.join('').length).toBeLessThan(300);
});
