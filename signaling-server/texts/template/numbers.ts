/**
 * Python's numbers: ints of any size, floats, and how both are computed with, read and written. Where Python goes by the
 * exact value of a float, so does this, in fractions of bigints. Powers that a C library would approximate are refused.
 */
import { strip } from './casing.ts';
import { fail } from './values.ts';

type Numeric = bigint | number | boolean;

const MOST_BITS = 200_000;
const MOST_DIGITS = 4300;

const isFloat = (value: Numeric): value is number => typeof value === 'number';
export const asInt = (value: bigint | boolean): bigint => (typeof value === 'boolean' ? BigInt(value) : value);
const absolute = (value: bigint): bigint => (value < 0n ? -value : value);
const bitsOf = (value: bigint): number => absolute(value).toString(16).length * 4;

export function asFloat(value: Numeric): number {
  if (isFloat(value)) return value;
  const result = Number(asInt(value));
  return Number.isFinite(result) ? result : fail('a whole number is too large for a float');
}

/** Every double is a whole number over a power of two. */
function fraction(value: number): readonly [bigint, bigint] {
  let exponent = 0;
  let scaled = value;
  while (!Number.isInteger(scaled)) {
    scaled *= 2;
    exponent++;
  }
  return [BigInt(scaled), 1n << BigInt(exponent)];
}

/** The double next to a quotient. */
function quotient(over: bigint, under: bigint): number {
  const sign = over < 0n !== under < 0n ? -1 : 1;
  const [a, b] = [absolute(over), absolute(under)];
  if (a === 0n) return 0;
  const shift = 68 - (bitsOf(a) - bitsOf(b));
  if (Math.abs(shift) > 900) fail('a quotient is too large or too small');
  const [x, y] = shift > 0 ? [a << BigInt(shift), b] : [a, b << BigInt(-shift)];
  const whole = x / y;
  return sign * Number(whole * y === x ? whole : whole | 1n) * 2 ** -shift;
}

const notZero = <T extends bigint | number>(value: T): T =>
  value === 0n || value === 0 ? fail('a number is divided by zero') : value;

function floorDivide(a: bigint, b: bigint): bigint {
  const whole = a / notZero(b);
  return a % b !== 0n && a < 0n !== b < 0n ? whole - 1n : whole;
}

/** Python's remainder has the sign of the divisor. */
function floatRemainder(a: number, b: number): number {
  const rest = a % notZero(b);
  if (rest === 0) return b < 0 ? -0 : 0;
  return rest < 0 !== b < 0 ? rest + b : rest;
}

function floatFloorDivide(a: number, b: number): number {
  const rest = a % notZero(b);
  const parts = (a - rest) / b - (rest !== 0 && rest < 0 !== b < 0 ? 1 : 0);
  if (parts === 0) return a < 0 !== b < 0 ? -0 : 0;
  const whole = Math.floor(parts);
  return parts - whole > 0.5 ? whole + 1 : whole;
}

function intPower(base: bigint, exponent: bigint): bigint {
  if (base !== 0n && absolute(base) !== 1n && Number(exponent) * bitsOf(base) > MOST_BITS) fail('a power is too large');
  return base ** exponent;
}

function power(a: Numeric, b: Numeric): bigint | number {
  if (!isFloat(a) && !isFloat(b) && asInt(b) >= 0n) return intPower(asInt(a), asInt(b));
  const [base, exponent] = [asFloat(a), asFloat(b)];
  if (!Number.isInteger(exponent) || !Number.isFinite(base)) fail('a power whose exponent is no whole number');
  if (exponent < 0) notZero(base);
  if (base === 0) return exponent === 0 ? 1 : Object.is(base, -0) && exponent % 2 !== 0 ? -0 : 0;
  const [x = 0n, y = 1n] = fraction(base).map((part) => intPower(part, BigInt(Math.abs(exponent))));
  const [over, under] = exponent < 0 ? [y, x] : [x, y];
  const result = quotient(over, under);
  const [exact, divisor] = fraction(result);
  return exact * under === divisor * over ? result : fail('a power that no float is exactly');
}

/** Both floats, or both ints. */
export function calculate(operator: string, a: Numeric, b: Numeric): bigint | number {
  if (operator === '**') return bounded(power(a, b));
  if (operator === '/') {
    return isFloat(a) || isFloat(b) ? asFloat(a) / notZero(asFloat(b)) : quotient(asInt(a), notZero(asInt(b)));
  }
  if (isFloat(a) || isFloat(b)) {
    const [x, y] = [asFloat(a), asFloat(b)];
    if (operator === '+') return x + y;
    if (operator === '-') return x - y;
    if (operator === '*') return x * y;
    return operator === '//' ? floatFloorDivide(x, y) : floatRemainder(x, y);
  }
  const [x, y] = [asInt(a), asInt(b)];
  if (operator === '+') return x + y;
  if (operator === '-') return x - y;
  if (operator === '*') return bounded(x * y);
  const whole = floorDivide(x, y);
  return operator === '//' ? whole : x - whole * y;
}

function bounded<T extends bigint | number>(value: T): T {
  if (typeof value === 'bigint' && bitsOf(value) > MOST_BITS) fail('a whole number is too large');
  if (typeof value === 'number' && !Number.isFinite(value)) fail('a float is too large');
  return value;
}

export function intText(value: bigint): string {
  const text = value.toString();
  return text.length > MOST_DIGITS ? fail(`a whole number has more than ${MOST_DIGITS} digits`) : text;
}

/** `repr` of a float: the shortest digits that read as the same, with an exponent below 1e-4 and from 1e16. */
export function floatText(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf';
  if (Object.is(value, -0)) return '-0.0';
  const [mantissa = '', power = '0'] = value.toExponential().split('e');
  const exponent = Number(power);
  if (value === 0 || (exponent >= -4 && exponent < 16)) {
    const text = String(value);
    return text.includes('.') ? text : `${text}.0`;
  }
  return `${mantissa}e${exponentText(exponent)}`;
}

const exponentText = (exponent: number): string =>
  `${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;

/** over / under, to the nearest whole number; of two equally near ones the even one. */
function nearest(over: bigint, under: bigint): bigint {
  const whole = over / under;
  const twice = 2n * (over - whole * under);
  return twice > under || (twice === under && whole % 2n === 1n) ? whole + 1n : whole;
}

/** |value| · 10^digits, to the nearest whole number. */
function scaled(value: number, digits: number): bigint {
  const [over, under] = fraction(Math.abs(value));
  return digits >= 0 ? nearest(over * 10n ** BigInt(digits), under) : nearest(over, under * 10n ** BigInt(-digits));
}

const MOST_PLACES = 400;

/** `round(value, digits)`. */
export function roundTo(value: Numeric, digits: number): bigint | number {
  if (isFloat(value)) {
    if (!Number.isFinite(value) || digits > MOST_PLACES) return value;
    const text = `${value < 0 || Object.is(value, -0) ? '-' : ''}${scaled(value, Math.max(digits, -MOST_PLACES))}`;
    return Number(`${text}e${-Math.max(digits, -MOST_PLACES)}`);
  }
  if (digits >= 0) return asInt(value);
  const unit = 10n ** BigInt(Math.min(-digits, MOST_PLACES));
  const whole = nearest(absolute(asInt(value)), unit) * unit;
  return asInt(value) < 0n ? -whole : whole;
}

/** The digits of |value| with so many after the point. */
export function fixed(value: number, places: number): string {
  const digits = scaled(value, places)
    .toString()
    .padStart(places + 1, '0');
  return places === 0 ? digits : `${digits.slice(0, -places)}.${digits.slice(-places)}`;
}

/** |value| as `d.ddde+xx`; its exponent is what `general` goes by. */
export function exponential(value: number, places: number): { readonly text: string; readonly exponent: number } {
  if (value === 0) return { text: `${fixed(0, places)}e+00`, exponent: 0 };
  let exponent = Number(Math.abs(value).toExponential().split('e')[1]);
  let digits = scaled(value, places - exponent).toString();
  if (digits.length > places + 1) {
    exponent++;
    digits = scaled(value, places - exponent).toString();
  }
  const mantissa = places === 0 ? digits : `${digits.slice(0, 1)}.${digits.slice(1)}`;
  return { text: `${mantissa}e${exponentText(exponent)}`, exponent };
}

/** |value| in so many significant digits, as `%g`; `point`: as `format` writes a float without a type, never as an int. */
export function general(value: number, precision: number, { zeros = false, point = false } = {}): string {
  const significant = Math.max(1, precision);
  const { text, exponent } = exponential(value, significant - 1);
  const withExponent = exponent < -4 || exponent >= significant - (point ? 1 : 0);
  const [digits = '', power] = (withExponent ? text : fixed(value, significant - 1 - exponent)).split('e');
  const short = zeros || !digits.includes('.') ? digits : digits.replace(/\.?0+$/, '');
  const shown = point && power === undefined && !short.includes('.') ? `${short}.0` : short;
  return power === undefined ? shown : `${shown}e${power}`;
}

const DIGITS: Readonly<Record<number, RegExp>> = {
  2: /^(?:0[bB]_?)?[01]+(?:_[01]+)*$/,
  8: /^(?:0[oO]_?)?[0-7]+(?:_[0-7]+)*$/,
  10: /^[0-9]+(?:_[0-9]+)*$/,
  16: /^(?:0[xX]_?)?[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*$/,
};
const PREFIXES: Readonly<Record<number, string>> = { 2: '0b', 8: '0o', 10: '', 16: '0x' };

/** `int(text, base)`; null: Python finds no number in it. */
export function parseInteger(text: string, base: number): bigint | null {
  const pattern = DIGITS[base] ?? fail(`a number to the base ${base}`);
  const [, sign = '', digits = ''] = /^([+-]?)(.*)$/s.exec(trimmed(text)) ?? [];
  if (!pattern.test(digits)) return null;
  const plain = digits.replace(/_/g, '').replace(/^0[bBoOxX]/, '');
  if (plain.length > MOST_DIGITS && base === 10) return null;
  const value = BigInt(`${PREFIXES[base]}${plain}`);
  return sign === '-' ? -value : value;
}

/** `float(text)`; null: Python finds no number in it. */
export function parseFloatText(text: string): number | null {
  const [, sign = '', rest = ''] = /^([+-]?)(.*)$/s.exec(trimmed(text)) ?? [];
  if (/^(?:inf|infinity|nan)$/i.test(rest)) {
    const value = rest.toLowerCase() === 'nan' ? Number.NaN : Number.POSITIVE_INFINITY;
    return sign === '-' ? -value : value;
  }
  const digits = '[0-9]+(?:_[0-9]+)*';
  if (!new RegExp(`^(?:${digits}\\.?(?:${digits})?|\\.${digits})(?:[eE][+-]?${digits})?$`).test(rest)) return null;
  const value = Number(rest.replace(/_/g, ''));
  return sign === '-' ? -value : value;
}

function trimmed(text: string): string {
  const bare = strip(text, null);
  return /[^\0-\x7f]/.test(bare) && /\p{Nd}/u.test(bare.replace(/[\0-\x7f]/g, ''))
    ? fail('a number in digits other than 0 to 9')
    : bare;
}
