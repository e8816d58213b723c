/**
 * A name that a donor shows to everyone, its own or its team's: plain text of bounded length, and characters that can be
 * seen. The page and the server ask the same function; whatever passes is shown as text.
 */

export const NAME_LENGTH_LIMIT = 40;

/** Letters, their marks, digits, signs and spaces: nothing that is not seen, and nothing that turns the line around. */
const VISIBLE = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]*$/u;
/** More marks than any script puts on a letter cover the lines above and below. */
const PILED = /\p{M}{4}/u;

/** As it is kept and shown. */
export const tidyName = (text: string): string => text.normalize('NFC').replace(/\s+/gu, ' ').trim();

/** Letters of other scripts that look like Latin ones, each with that one. */
const ALIKE = new Map(
  [
    'аa',
    'вb',
    'еe',
    'ёe',
    'кk',
    'мm',
    'нh',
    'оo',
    'рp',
    'сc',
    'тt',
    'уy',
    'хx',
    'ѕs',
    'іi',
    'јj',
    'ԁd',
    'һh',
    'ӏl',
    'ԛq',
    'ԝw',
  ]
    .concat(['αa', 'βb', 'εe', 'ηn', 'ιi', 'κk', 'νv', 'οo', 'ρp', 'τt', 'υu', 'χx', 'γy', '0o', '1l', '|l', 'ıi'])
    .map(([other = '', latin = '']) => [other, latin]),
);

/** The same for two names that nobody could tell apart: letters by how they look, without case and spaces. */
export const lookOf = (name: string): string =>
  [...name.normalize('NFKC').toLowerCase().normalize('NFKC').replace(/\s/gu, '')]
    .map((letter) => ALIKE.get(letter) ?? letter)
    .join('');

/** Why this is no name, in a sentence; null: it is one. Empty is one too: nobody's. */
export function nameProblem(text: string): string | null {
  const name = tidyName(text);
  const length = [...name].length;
  if (length > NAME_LENGTH_LIMIT)
    return `a name has at most ${NAME_LENGTH_LIMIT} characters, this one has ${length.toLocaleString('en')}`;
  if (!VISIBLE.test(name)) return 'a name has no characters that cannot be seen';
  if (PILED.test(name)) return 'a name has no more than three marks on a letter';
  return null;
}
