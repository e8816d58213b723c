/** Which characters Python counts as what, and how it changes their case. */
import { characters, fail } from './values.ts';

/** What `str.isspace` is true of. */
export const SPACE = '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';
const LEADING = new RegExp(`^[${SPACE}]+`);
const ALL_SPACE = new RegExp(`^[${SPACE}]+$`);
const IS_SPACE = new RegExp(`^[${SPACE}]$`);

export const isSpace = (text: string): boolean => ALL_SPACE.test(text);

/** `strip`, `lstrip` and `rstrip`: white space where no characters are given. */
export function strip(text: string, chars: string | null, side: 'both' | 'left' | 'right' = 'both'): string {
  const set = chars === null ? null : new Set(characters(chars));
  // A half of a character is none of a set of whole ones.
  const hasPairs = set !== null && [...set].some((character) => character.length > 1);
  const all: ArrayLike<string> & { slice(from: number, to: number): string | string[] } = hasPairs
    ? characters(text)
    : text;
  const isWithin = (index: number): boolean => {
    const character = all[index] ?? '';
    return set === null ? IS_SPACE.test(character) : set.has(character);
  };
  let from = 0;
  let to = all.length;
  if (side !== 'right') while (from < to && isWithin(from)) from++;
  if (side !== 'left') while (to > from && isWithin(to - 1)) to--;
  if (from === 0 && to === all.length) return text;
  const kept = all.slice(from, to);
  return typeof kept === 'string' ? kept : kept.join('');
}

/** The words between white space; past so many cuts the rest as it stands. */
export function words(text: string, most: number): string[] {
  const found: string[] = [];
  let rest = text.replace(LEADING, '');
  const gap = new RegExp(`[${SPACE}]+`);
  while (rest !== '') {
    const match = most >= 0 && found.length >= most ? null : gap.exec(rest);
    if (match === null) {
      found.push(rest);
      break;
    }
    found.push(rest.slice(0, match.index));
    rest = rest.slice(match.index + match[0].length);
  }
  return found;
}

const LINE_ENDS = '\n-\r\x1c-\x1e\x85\u2028\u2029';
const LINE = new RegExp(`\r\n|[${LINE_ENDS}]`, 'g');

/** `splitlines`. */
export function lines(text: string, keepEnds: boolean): string[] {
  const found: string[] = [];
  let from = 0;
  for (const { 0: end, index } of text.matchAll(LINE)) {
    found.push(text.slice(from, keepEnds ? index + end.length : index));
    from = index + end.length;
  }
  return from < text.length ? [...found, text.slice(from)] : found;
}

/** Where a title's capital is not the capital of a whole word. */
const TITLES: Readonly<Record<string, string>> = {
  ...{ ß: 'Ss', ﬀ: 'Ff', ﬁ: 'Fi', ﬂ: 'Fl', ﬃ: 'Ffi', ﬄ: 'Ffl', ﬅ: 'St', ﬆ: 'St', և: 'Եւ' },
  ...{ ﬓ: 'Մն', ﬔ: 'Մե', ﬕ: 'Մի', ﬖ: 'Վն', ﬗ: 'Մխ' },
  ...{ Ǆ: 'ǅ', ǅ: 'ǅ', ǆ: 'ǅ', Ǉ: 'ǈ', ǈ: 'ǈ', ǉ: 'ǈ', Ǌ: 'ǋ', ǋ: 'ǋ', ǌ: 'ǋ', Ǳ: 'ǲ', ǲ: 'ǲ', ǳ: 'ǲ' },
  ...{
    ᾲ: 'Ὰͅ',
    ᾳ: 'ᾼ',
    ᾴ: 'Άͅ',
    ᾷ: '\u0391\u0342\u0345',
    ῂ: 'Ὴͅ',
    ῃ: 'ῌ',
    ῄ: 'Ήͅ',
    ῇ: '\u0397\u0342\u0345',
    ῲ: 'Ὼͅ',
    ῳ: 'ῼ',
    ῴ: 'Ώͅ',
    ῷ: '\u03a9\u0342\u0345',
  },
};

function titleCase(character: string): string {
  const known = TITLES[character];
  if (known !== undefined) return known;
  const code = character.codePointAt(0) ?? 0;
  if (code >= 0x1f80 && code < 0x1fb0) return String.fromCodePoint(code | 8);
  if (/[ᾼῌῼა-ჺჽ-ჿ]/u.test(character)) return character;
  return character.toUpperCase();
}

const CASED = /^\p{Cased}$/u;

/** `str.title`: a capital after everything that has no case. */
export function title(text: string): string {
  const lower = lowerEach(text);
  let inWord = false;
  return characters(text)
    .map((character, i) => {
      const shown = inWord ? (lower[i] ?? '') : titleCase(character);
      inWord = CASED.test(character);
      return shown;
    })
    .join('');
}

/** Each character in lower case; a sigma as its neighbours have it. */
function lowerEach(text: string): string[] {
  const whole = text.toLowerCase();
  let from = 0;
  return characters(text).map((character) => {
    const own = character.toLowerCase();
    const shown = whole.slice(from, from + own.length);
    from += own.length;
    return shown;
  });
}

export function capitalize(text: string): string {
  const [first, ...rest] = characters(text);
  return first === undefined
    ? ''
    : titleCase(first) +
        lowerEach(text)
          .slice(1, 1 + rest.length)
          .join('');
}

export function swapCase(text: string): string {
  const lower = lowerEach(text);
  return characters(text)
    .map((character, i) =>
      /^\p{Uppercase}$/u.test(character)
        ? (lower[i] ?? '')
        : /^\p{Lowercase}$/u.test(character)
          ? character.toUpperCase()
          : character,
    )
    .join('');
}

/** `islower` and `isupper`: some character has that case, none another. */
export const isLower = (text: string): boolean => /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text);
export const isUpper = (text: string): boolean => /\p{Uppercase}/u.test(text) && !/[\p{Lowercase}\p{Lt}]/u.test(text);

export function isTitle(text: string): boolean {
  let inWord = false;
  let any = false;
  for (const character of characters(text)) {
    const isCapital = /^[\p{Uppercase}\p{Lt}]$/u.test(character);
    const isSmall = /^\p{Lowercase}$/u.test(character);
    if (isCapital ? inWord : isSmall && !inWord) return false;
    inWord = isCapital || isSmall;
    any ||= inWord;
  }
  return any;
}

/** Python counts more as digits than Unicode's decimal digits: those are refused. */
export function isDigits(text: string, kind: 'decimal' | 'digit' | 'numeric'): boolean {
  if (/^\p{Nd}+$/u.test(text)) return true;
  if (kind !== 'decimal' && /[^\0-\x7f]/.test(text) && /[\p{N}\p{Lo}]/u.test(text.replace(/[\0-\x7f]/g, ''))) {
    fail('which characters outside ASCII are digits');
  }
  return false;
}
