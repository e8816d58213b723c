/**
 * Token ids of a text that is never whole in memory, equal to those of the text encoded at once. A place
 * to cut is proposed by a rule and accepted by the tokenizer itself. The piece is encoded together with the text after
 * the cut; if these ids end with those of the text after the cut encoded alone, then a tokenizer that begins anew there
 * goes on just as the one that came from the left, and what stands before is the piece's ids.
 *
 * The rule proposes what pre-tokenizers split at, whatever came before: the end of a word. A tokenizer that puts a
 * space before every text (Llama's) accepts such a cut without the space that follows the word.
 */

export interface TokenStreamSizes {
  /** Characters (UTF-16 units) encoded at once. */
  readonly piece: number;
  /** Characters at least that are seen after a cut: more than a word, and than a token, has. */
  readonly context: number;
  /** Characters at most without a place to cut. */
  readonly longest: number;
}

/** Most texts are one piece; a larger one is 200 MB at the library. */
const SIZES: TokenStreamSizes = { piece: 524_288, context: 4_096, longest: 8_388_608 };

interface TokenStream {
  /** The ids that are certain by now. */
  add(text: string): Promise<number[]>;
  /** The rest. */
  end(): Promise<number[]>;
  /** What was added and has no ids yet. */
  pending(): string;
}

/** Places between two characters, the best kind first. */
const CUTS: readonly RegExp[] = [
  /(?<=[\p{L}\p{N}])(?![\p{L}\p{N}\p{M}\p{Cf}])/gu, // after a word
  /(?<=\S\n)(?=\S)/gu, // after a line
  /(?<=[\s\S])(?=[\s\S])/gu, // anywhere: in a word without an end
];
const TRIES = 16;
/** Where cuts are looked for, before everything is. */
const NEAR_CHARACTERS = 2_048;

export class UncuttableTextError extends Error {}

type Encode = (text: string) => Promise<number[]>;

export function tokenStream(encode: Encode, sizes = SIZES): TokenStream {
  let text = '';
  let wanted = sizes.piece + sizes.context;
  return {
    async add(more) {
      text += more;
      const ids: number[] = [];
      while (text.length >= wanted) {
        const piece = text.slice(0, wanted);
        const cut = await firstCut(encode, piece, sizes.context);
        if (cut) {
          for (const id of cut.ids) ids.push(id);
          text = text.slice(cut.next);
          wanted = sizes.piece + sizes.context;
        } else {
          wanted *= 2;
          if (wanted > sizes.longest) throw new UncuttableTextError(`${sizes.longest} characters without a word's end`);
        }
      }
      return ids;
    },
    end: () => encode(text),
    pending: () => text,
  };
}

interface Cut {
  /** Of what stands before it. */
  readonly ids: readonly number[];
  /** Where the next piece begins. */
  readonly next: number;
}

async function firstCut(encode: Encode, text: string, context: number): Promise<Cut | null> {
  const whole = await encode(text);
  for (const place of places(text, text.length - context))
    for (const next of text[place] === ' ' ? [place, place + 1] : [place]) {
      const rest = await encode(text.slice(next));
      const before = whole.length - rest.length;
      // What has no ids (blanks, that are stripped where a text begins) says nothing of a cut before it.
      if (before > 0 && rest.length > 0 && rest.every((id, index) => id === whole[before + index]))
        return { ids: whole.slice(0, before), next };
    }
  return null;
}

/** Places up to `end`, the last one first. */
function* places(text: string, end: number): Generator<number> {
  for (const kind of CUTS) {
    const near = Math.max(0, end - NEAR_CHARACTERS);
    const found = [...matches(text, kind, near, end)];
    if (found.length === 0) found.push(...matches(text, kind, 0, near));
    yield* found.slice(-TRIES).reverse();
  }
}

function* matches(text: string, kind: RegExp, from: number, to: number): Generator<number> {
  // Two more: a character may be two units.
  for (const { index } of text.slice(from, to + 2).matchAll(kind))
    if (index > 0 && index <= to - from) yield from + index;
}
