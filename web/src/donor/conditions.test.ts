import { describe, expect, test } from 'vitest';
import {
  clockText,
  counted,
  dayOf,
  isUsedUp,
  minuteOf,
  NO_TRAFFIC,
  type Surroundings,
  UNKNOWN_SURROUNDINGS,
  unmet,
} from './conditions.ts';
import { DEFAULT_PREFERENCES, type Preferences } from './preferences.ts';

const at = (seen: Partial<Surroundings>): Surroundings => ({ ...UNKNOWN_SURROUNDINGS, ...seen });
const want = (wanted: Partial<Preferences>): Preferences => ({ ...DEFAULT_PREFERENCES, ...wanted });
const minute = (text: string): number => minuteOf(text) ?? Number.NaN;

describe('conditions', () => {
  test('without a wish everything goes', () => {
    const worst = at({ hidden: true, power: 'battery', isPersonHere: true, minuteOfDay: 700 });
    expect(unmet(want({}), worst, { day: '', sentBytes: 1e12, receivedBytes: 1e12 })).toBeNull();
  });

  test('each wish is asked of what is seen; a browser that does not say stops nothing', () => {
    expect(unmet(want({ onlyMains: true }), at({ power: 'battery' }), NO_TRAFFIC)).toBe('battery');
    expect(unmet(want({ onlyMains: true }), at({ power: 'unknown' }), NO_TRAFFIC)).toBeNull();
    expect(unmet(want({ onlyIdle: true }), at({ isPersonHere: true }), NO_TRAFFIC)).toBe('person');
    expect(unmet(want({ onlyVisible: true }), at({ hidden: true }), NO_TRAFFIC)).toBe('hidden');
  });

  test.each([
    ['22:00', '06:00', ['22:00', '23:59', '00:00', '05:59'], ['06:00', '12:00', '21:59']],
    ['09:00', '17:30', ['09:00', '17:29'], ['08:59', '17:30', '00:00']],
    ['08:00', '08:00', ['00:00', '08:00', '23:59'], []],
  ])('from %s to %s, over midnight too; an empty span is the whole day', (from, to, open, shut) => {
    const preferences = want({ hours: { from: minute(from), to: minute(to) } });
    const found = (text: string) => unmet(preferences, at({ minuteOfDay: minute(text) }), NO_TRAFFIC);
    expect(open.map(found)).toEqual(open.map(() => null));
    expect(shut.map(found)).toEqual(shut.map(() => 'hours'));
  });

  test('a cap of the day ends in time for the hand-over, and at the cap at once', () => {
    const capped = want({ uploadBytesPerDay: 100e6, downloadBytesPerDay: 10e6 });
    const moved = (sentBytes: number, receivedBytes: number) => ({ day: '', sentBytes, receivedBytes });
    expect(unmet(capped, at({}), moved(92e6, 9e6))).toBeNull();
    expect(unmet(capped, at({}), moved(94e6, 0))).toBe('upload');
    expect(unmet(capped, at({}), moved(0, 9.4e6))).toBe('download');
    expect([isUsedUp(capped, moved(99e6, 9.9e6)), isUsedUp(capped, moved(0, 10e6))]).toEqual([false, true]);
  });

  test('traffic is counted once, over a worker that began anew', () => {
    const says = (bytesSent: number, bytesReceived: number) => ({ bytesSent, bytesReceived });
    const first = counted(NO_TRAFFIC, null, says(5, 1));
    const second = counted(first, says(5, 1), says(9, 4));
    const third = counted(second, says(9, 4), says(2, 0));
    expect(third).toMatchObject({ sentBytes: 11, receivedBytes: 4 });
    expect(counted(third, says(2, 0), says(2, 0))).toBe(third);
  });

  test('times and days are this computer’s own', () => {
    expect(['00:00', '07:05', '23:59'].map((text) => clockText(minute(text)))).toEqual(['00:00', '07:05', '23:59']);
    expect(['', '24:00', '7:05', '12:60'].map(minuteOf)).toEqual([null, null, null, null]);
    expect(dayOf(new Date(2026, 0, 2, 23, 59))).toBe('2026-01-02');
  });
});
