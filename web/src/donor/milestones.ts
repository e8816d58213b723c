/** What a donor has reached, in things that people know. Pure. */
import { countText } from '../page/format.ts';

/** Characters of a printed page, and of a token where the tokenizer is not one of bytes. */
const [PAGE_CHARACTERS, TOKEN_CHARACTERS] = [1_800, 4];
const BYTE_VOCABULARY = 256;
const PAGES = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];
const HOUR_SECONDS = 3_600;

/** Printed pages that so many tokens are about. */
export const pagesOf = (tokens: number, vocabulary: number): number =>
  (tokens * (vocabulary <= BYTE_VOCABULARY ? 1 : TOKEN_CHARACTERS)) / PAGE_CHARACTERS;

interface Given {
  /** By all visits. */
  readonly pages: number;
  /** Training in this tab since it was opened. */
  readonly seconds: number;
  /** The run is finished: nothing comes next. */
  readonly isOver?: boolean;
}

/** What stands behind and what comes next; null: no step is done yet. */
export function milestoneText({ pages, seconds, isOver = false }: Given): string | null {
  if (pages <= 0) return null;
  const reached = PAGES.findLast((each) => pages >= each);
  const next = isOver ? undefined : PAGES.find((each) => pages < each);
  const hours = Math.floor(seconds / HOUR_SECONDS);
  const done =
    reached === undefined
      ? 'Your first step is part of the model'
      : `The model has read ${pagesText(reached)} with your GPU`;
  const lasted =
    hours === 0 ? '' : `, and you have trained for ${hours === 1 ? 'an hour' : `${countText(hours)} hours`}`;
  return `${done}${lasted}.${next === undefined ? '' : ` Next: ${pagesText(next)}.`}`;
}

const pagesText = (pages: number): string => (pages === 1 ? 'a book page' : `${countText(pages)} book pages`);
