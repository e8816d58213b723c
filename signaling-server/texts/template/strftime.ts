/** `strftime` of the date that a run has pinned, with English names, as a C library's has them. */
import { fail } from './values.ts';

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const MONTHS = [
  ...['January', 'February', 'March', 'April', 'May', 'June'],
  ...['July', 'August', 'September', 'October', 'November', 'December'],
];
const DAY_MS = 86_400_000;

interface Part {
  readonly value: number | string;
  readonly width?: number;
  readonly fill?: string;
}

const COMPOSED: Readonly<Record<string, string>> = {
  ...{ c: '%a %b %e %H:%M:%S %Y', D: '%m/%d/%y', F: '%Y-%m-%d', r: '%I:%M:%S %p', R: '%H:%M', T: '%H:%M:%S' },
  ...{ x: '%m/%d/%y', X: '%H:%M:%S', h: '%b' },
};

/** Days before that of the year, and the week in which the year begins on that day of the week (0: Sunday). */
const dayOfYear = (date: Date): number =>
  Math.floor(
    (Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()) - Date.UTC(date.getUTCFullYear(), 0, 1)) /
      DAY_MS,
  );
const weekFrom = (date: Date, first: number): number =>
  Math.floor((dayOfYear(date) + 7 - ((date.getUTCDay() - first + 7) % 7)) / 7);

/** A week of ISO 8601 belongs to the year that has its Thursday. */
function isoWeek(date: Date): { readonly year: number; readonly week: number } {
  const thursday = new Date(date.getTime() + (4 - (date.getUTCDay() || 7)) * DAY_MS);
  return { year: thursday.getUTCFullYear(), week: Math.floor(dayOfYear(thursday) / 7) + 1 };
}

const TWO = { width: 2, fill: '0' };

const PARTS: Readonly<Record<string, (date: Date) => Part>> = {
  a: (date) => ({ value: (DAYS[date.getUTCDay()] ?? '').slice(0, 3) }),
  A: (date) => ({ value: DAYS[date.getUTCDay()] ?? '' }),
  b: (date) => ({ value: (MONTHS[date.getUTCMonth()] ?? '').slice(0, 3) }),
  B: (date) => ({ value: MONTHS[date.getUTCMonth()] ?? '' }),
  C: (date) => ({ value: Math.floor(date.getUTCFullYear() / 100), ...TWO }),
  d: (date) => ({ value: date.getUTCDate(), ...TWO }),
  e: (date) => ({ value: date.getUTCDate(), width: 2, fill: ' ' }),
  f: (date) => ({ value: date.getUTCMilliseconds() * 1000, width: 6, fill: '0' }),
  g: (date) => ({ value: isoWeek(date).year % 100, ...TWO }),
  G: (date) => ({ value: isoWeek(date).year, width: 4, fill: '0' }),
  H: (date) => ({ value: date.getUTCHours(), ...TWO }),
  I: (date) => ({ value: date.getUTCHours() % 12 || 12, ...TWO }),
  j: (date) => ({ value: dayOfYear(date) + 1, width: 3, fill: '0' }),
  k: (date) => ({ value: date.getUTCHours(), width: 2, fill: ' ' }),
  l: (date) => ({ value: date.getUTCHours() % 12 || 12, width: 2, fill: ' ' }),
  m: (date) => ({ value: date.getUTCMonth() + 1, ...TWO }),
  M: (date) => ({ value: date.getUTCMinutes(), ...TWO }),
  n: () => ({ value: '\n' }),
  p: (date) => ({ value: date.getUTCHours() < 12 ? 'AM' : 'PM' }),
  P: (date) => ({ value: date.getUTCHours() < 12 ? 'am' : 'pm' }),
  S: (date) => ({ value: date.getUTCSeconds(), ...TWO }),
  t: () => ({ value: '\t' }),
  u: (date) => ({ value: date.getUTCDay() || 7 }),
  U: (date) => ({ value: weekFrom(date, 0), ...TWO }),
  V: (date) => ({ value: isoWeek(date).week, ...TWO }),
  w: (date) => ({ value: date.getUTCDay() }),
  W: (date) => ({ value: weekFrom(date, 1), ...TWO }),
  y: (date) => ({ value: date.getUTCFullYear() % 100, ...TWO }),
  Y: (date) => ({ value: date.getUTCFullYear() }),
  z: () => ({ value: '' }),
  Z: () => ({ value: '' }),
  '%': () => ({ value: '%' }),
};

/** The fields of the date are those of its UTC; it has no time zone to tell. */
export function strftime(date: Date, format: string): string {
  return format.replace(/%([-_0^]?)([\s\S]?)/g, (whole, flag: string, letter: string) => {
    const composed = COMPOSED[letter];
    if (composed !== undefined && flag === '') return strftime(date, composed);
    const part = PARTS[letter] ?? fail(`the date format ${whole}`);
    const { value, width = 0, fill = ' ' } = part(date);
    if (typeof value === 'string')
      return flag === '^' ? value.toUpperCase() : flag === '' ? value : fail(`the date format ${whole}`);
    if (flag === '-') return String(value);
    return String(value).padStart(width, flag === '_' ? ' ' : flag === '0' ? '0' : fill);
  });
}
