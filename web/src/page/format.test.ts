import { describe, expect, test } from 'vitest';
import { durationText } from '../../../swarm/quantityText.ts';
import {
  browserText,
  byteRateText,
  countText,
  innerStepsText,
  lossText,
  millisecondsText,
  percentText,
  precisionText,
  rateText,
  trafficText,
} from './format.ts';

describe('format', () => {
  test('an island’s steps are of so many, or as many as the time allowed', () => {
    expect(innerStepsText({ innerStep: 1, innerSteps: 1 })).toBe('1 of 1 step');
    expect(innerStepsText({ innerStep: 1_200, innerSteps: 2_000 })).toBe('1,200 of 2,000 steps');
    expect(innerStepsText({ innerStep: 1, innerSteps: null })).toBe('1 step');
  });

  test('counts are exact while they are short', () => {
    expect([0, 999, 12_345, 999_999, 1_234_567, 2.5e9].map(countText)).toEqual([
      '0',
      '999',
      '12,345',
      '999,999',
      '1.23M',
      '2.50B',
    ]);
  });

  test('a missing number is a dash', () => {
    expect([lossText(null), lossText(2.34567), lossText(1234.5), rateText(null), rateText(1530)]).toEqual([
      '–',
      '2.346',
      '1235',
      '–',
      '1.53K',
    ]);
  });

  test('how a donor computes is said in words', () => {
    expect([precisionText('f16'), precisionText('f32')]).toEqual(['in halves (f16)', 'in f32']);
  });

  test('a way has milliseconds and decimal units', () => {
    expect([null, 0.84, 41.6].map(millisecondsText)).toEqual(['–', '0.8 ms', '42 ms']);
    expect([null, 12, 45_600, 8_340_000].map(byteRateText)).toEqual(['–', '1 kB/s', '46 kB/s', '8.3 MB/s']);
  });

  test('a browser is its name and version', () => {
    const chrome =
      'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/156.0.0.0 Safari/537.36';
    expect(browserText(chrome)).toBe('Chrome (headless) 156');
    expect(browserText('Mozilla/5.0 Chrome/156.0 Safari/537.36 Edg/156.0')).toBe('Edge 156');
    expect(browserText('Mozilla/5.0 (X11) Gecko/20100101 Firefox/150.0')).toBe('Firefox 150');
    expect(browserText('Version/19.1 Safari/605.1.15')).toBe('Safari 19');
    expect(browserText('<b>')).toBe('<b>');
  });

  test('traffic has decimal units, shares are as exact as they are small', () => {
    expect([0, 1_500, 45_600, 999_900, 34_000_000, 2.5e9].map(trafficText)).toEqual([
      '0.0 kB',
      '1.5 kB',
      '46 kB',
      '1.0 MB',
      '34 MB',
      '2.5 GB',
    ]);
    expect([null, 0, 0.004, 0.1, 0.256, 1].map(percentText)).toEqual(['–', '0 %', '0.4 %', '10 %', '26 %', '100 %']);
  });

  test('durations are as exact as one needs', () => {
    expect([0.2, 89, 90, 3_600, 11_100, 400_000].map(durationText)).toEqual([
      '1 s',
      '89 s',
      '2 min',
      '60 min',
      '3 h 05 min',
      '5 days',
    ]);
  });
});
