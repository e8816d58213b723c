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

/** Letters that look like others: Cyrillic, Greek, small capitals, and what upper and lower case make alike. */
const ALIKE = new Map(
  (
    'аa вb еe ёe кk мm нh оo рp сc тt уy хx ѕs іl јj ԁd һh ӏl ԛq ԝw αa βb εe ηn ιl κk νv οo ρp τt υu χx γy ' +
    'ᴀa ʙb ᴄc ᴅd ᴇe ғf ɢg ʜh ɪl ᴊj ᴋk ʟl ᴍm ɴn ᴏo ᴘp ʀr ꜱs ᴛt ᴜu ᴠv ᴡw ʏy ᴢz ɑa ɡg 0o 1l |l ıl il łl øo đd'
  )
    .split(' ')
    .map(([other = '', latin = '']) => [other, latin]),
);

/**
 * The same for two names that nobody could tell apart: letters by how they look, without case, accents, spaces and
 * punctuation, and two letters side by side that look like one.
 */
export function lookOf(name: string): string {
  const plain = name
    .normalize('NFKC')
    .toLowerCase()
    .normalize('NFKD')
    .replace(/\s|[\u0300-\u036f]/gu, '');
  const letters = plain.replace(/[\p{P}\p{Sk}]/gu, '');
  return [...(letters || plain)]
    .map((letter) => ALIKE.get(letter) ?? letter)
    .join('')
    .replaceAll('rn', 'm')
    .replaceAll('vv', 'w');
}

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
