import { afterEach, expect, test, vi } from 'vitest';
import type { TensorKey } from '../../swarm/messages/frame.ts';
import { packedWords, unpackedInt8, type WireEncoding } from '../../swarm/wire.ts';
import type { TamperFault } from '../faults/chaosScript.ts';
import type { DonorTab } from './donorTab.ts';
import { tamper } from './tamper.ts';

interface Hook {
  made(key: TensorKey, values: Float32Array): void;
  leaves(key: TensorKey, values: Float32Array): Float32Array;
  reports<T>(report: T): T;
}

/** As the donor's worker runs it: from its text alone. */
const worker: Pick<DonorTab, 'evaluateInWorker'> = {
  evaluateInWorker: async (work, given) => new Function(`return (${work})`)()(given),
};
function begin(kind: TamperFault, firstStep: number) {
  let hasFired = false;
  void tamper(worker, kind, firstStep).then((took) => {
    hasFired = took;
  });
  const hook = (globalThis as unknown as { shoalTampering: Hook }).shoalTampering;
  const fired = async (): Promise<boolean> => {
    await new Promise((resolve) => setImmediate(resolve));
    return hasFired;
  };
  return { hook, fired };
}
afterEach(() => vi.unstubAllGlobals());

const key = (kind: TensorKey['kind'], step: number, encoding: WireEncoding = 'f32'): TensorKey => ({
  ...{ kind, step, encoding, epoch: 1, stage: 1, index: 0, range: [0, 640] },
});
const wave = (length: number): Float32Array<ArrayBuffer> => Float32Array.from({ length }, (_, i) => Math.sin(i + 1));
const norm = (values: Float32Array): number => Math.hypot(...values);
const apart = (a: Float32Array, b: Float32Array): number => norm(a.map((value, i) => value - (b[i] ?? 0))) / norm(b);

test('a lie is noise of 1 % of the norm of gradients, whichever way they are written, the same one each time', async () => {
  const { hook, fired } = begin('lie', 2);
  const untouched = wave(640);
  hook.made(key('gradient', 1), untouched);
  hook.made(key('activation', 2), untouched);
  expect(untouched).toEqual(wave(640));
  expect(await fired()).toBe(false);
  for (const kind of ['gradient', 'slice'] as const) {
    const [lied, again] = [wave(640), wave(640)];
    hook.made(key(kind, 2), lied);
    hook.made(key(kind, 2), again);
    expect(apart(lied, wave(640))).toBeCloseTo(0.01, 6);
    expect(again).toEqual(lied);
  }
  expect(await fired()).toBe(true);
  const words = new Float32Array(packedWords('int8', 640));
  new Int8Array(words.buffer).forEach((_, i, codes) => {
    codes[i] = i % 100;
  });
  for (let block = 0; block < 10; block++) words[17 * block] = 0.5;
  const honest = unpackedInt8(words, 640);
  hook.made(key('gradient', 2, 'int8'), words);
  expect(apart(unpackedInt8(words, 640), honest)).toBeCloseTo(0.01, 6);
  const halves = new Float32Array(Uint32Array.of(0x3c004000, 0, 0xbc0003ff).buffer);
  hook.made(key('gradient', 2, 'f16'), halves);
  const [low = 0, high = 0] = new Uint16Array(halves.buffer);
  expect([Math.abs(low - 0x4000), Math.abs(high - 0x3c00)]).toEqual([10, 10]);
  expect(new Uint32Array(halves.buffer)[1]).toBe(0);
});

test('what is stale is of the step before, also where a step is done again', async () => {
  const { hook, fired } = begin('stale', 4);
  const told = (step: number, value: number): number | undefined => {
    const values = Float32Array.of(value);
    hook.made(key('activation', step), values);
    return values[0];
  };
  expect(told(3, 1)).toBe(1);
  expect(told(4, 2)).toBe(2);
  expect(await fired()).toBe(false);
  expect(told(5, 3)).toBe(2);
  expect(told(5, 4)).toBe(2);
  expect(told(6, 5)).toBe(4);
  expect(await fired()).toBe(true);
});

test('no number is only in what leaves; alone in its run, in its loss', async () => {
  const { hook, fired } = begin('nan', 1);
  const values = wave(4);
  hook.made(key('activation', 1), values);
  const report = { step: 1, losses: [{ microBatch: 0, lossSum: 3 }] };
  expect(hook.reports(report)).toEqual({ step: 1, losses: [{ microBatch: 0, lossSum: null }] });
  expect(await fired()).toBe(true);
  expect(hook.leaves(key('values', 1), values)).toBe(values);
  const sent = hook.leaves(key('activation', 1), values);
  expect([...sent].map(Number.isNaN)).toEqual([true, false, false, false]);
  expect(values).toEqual(wave(4));
  expect(hook.reports(report)).toBe(report);
});
