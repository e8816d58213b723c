import { expect, test } from 'vitest';
import { bytesText, counted, layersText, secondsText, speedText } from './quantityText.ts';

test('bytes have binary units', () => {
  expect([0, 1023, 1024, 15 * 1024, 3.25 * 1024 ** 2, 40 * 1024 ** 3].map(bytesText)).toEqual([
    '0 B',
    '1023 B',
    '1.0 KiB',
    '15 KiB',
    '3.3 MiB',
    '40 GiB',
  ]);
});

test('layers are counted from 1', () => {
  expect([layersText([0, 1]), layersText([2, 5])]).toEqual(['layer 1', 'layers 3–5']);
});

test('a noun has its plural', () => {
  expect([counted(1, 'stage'), counted(2, 'stage'), counted(2, 'micro-batch')]).toEqual([
    '1 stage',
    '2 stages',
    '2 micro-batches',
  ]);
});

test('says what is short in the unit that fits, and a slow swarm’s speed is not 0', () => {
  expect([0, 2.71, 0.0123456, 9.46e-4, 1.2e-7].map((seconds) => secondsText(seconds))).toEqual([
    '0 s',
    '2.71 s',
    '12.3 ms',
    '0.946 ms',
    '0.12 µs',
  ]);
  expect([1234.4, 9.96, 0.0421].map(speedText)).toEqual(['1234', '10', '0.042']);
});
