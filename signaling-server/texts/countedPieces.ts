/** An example's text in pieces: those of which the loss counts every token, and those between them. */
import type { Range } from '../../swarm/base.ts';
import type { LineExample } from './examples.ts';

interface TextPiece {
  readonly text: string;
  readonly isCounted: boolean;
}

/** `places`: null: nobody asked where tokens stand, and the text is one piece. */
export function textPieces({
  text,
  counted,
  places,
}: Pick<LineExample, 'text' | 'counted'> & { readonly places: Int32Array | null }): TextPiece[] {
  const characters = [...text];
  const pieces: TextPiece[] = [];
  let end = 0;
  const upTo = (next: number, isCounted: boolean): void => {
    if (next > end) pieces.push({ text: characters.slice(end, next).join(''), isCounted });
    end = next;
  };
  for (const [from, to] of places === null ? [] : countedParts(counted, places)) {
    upTo(from, false);
    upTo(to, true);
  }
  upTo(characters.length, false);
  return pieces;
}

/** Code points of the text, in order, apart from each other. */
function countedParts(counted: readonly number[], places: Int32Array): Range[] {
  const parts: Range[] = [];
  for (const [index, place] of counted.entries()) {
    const [from, to] = [places[2 * place] ?? 0, places[2 * place + 1] ?? 0];
    const last = parts.at(-1);
    // Tokens may share a character that has many bytes.
    if (last !== undefined && (counted[index - 1] === place - 1 || from < last[1]))
      parts[parts.length - 1] = [last[0], Math.max(last[1], to)];
    else parts.push([from, to]);
  }
  return parts;
}
