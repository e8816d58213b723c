/**
 * Which rows of a stage's cache hold the keys and values of which conversation: pages of PAGE_ROWS rows, so that a
 * conversation grows without a copy (Kwon et al. 2023, vLLM). Where no page is free, the conversation that was used longest
 * ago makes way; whoever goes on with it finds it gone, and reads it in again.
 */
import { arrayOf, at, invariant } from '../base.ts';

export const PAGE_ROWS = 16;
/** Rows of a piece that stand for nothing read and write here. */
export const UNUSED_PAGE = 0;

interface Conversation {
  readonly pages: number[];
  /** Positions that were read. */
  length: number;
}

export class Pages {
  readonly #free: number[];
  /** By conversation; the first was used longest ago. */
  readonly #conversations = new Map<string, Conversation>();

  /** `count`: the unused page among them. */
  constructor(count: number) {
    this.#free = arrayOf(Math.max(0, count - 1), (index) => count - 1 - index);
  }

  /** Pages for so many conversations of a model's length, the unused one among them. */
  static countFor(positions: number, conversations: number): number {
    return 1 + conversations * Math.ceil(positions / PAGE_ROWS);
  }

  /** How many positions of it stand here. */
  lengthOf(conversation: string): number {
    return this.#conversations.get(conversation)?.length ?? 0;
  }

  /**
   * Room for `rows` more positions: its pages in order; null where all pages together are too few. Those of `inUse` are
   * kept.
   */
  extend(conversation: string, rows: number, inUse: ReadonlySet<string> = new Set()): readonly number[] | null {
    const known = this.#conversations.get(conversation) ?? { pages: [], length: 0 };
    // The newest in use is last.
    this.#conversations.delete(conversation);
    this.#conversations.set(conversation, known);
    const wanted = Math.ceil((known.length + rows) / PAGE_ROWS) - known.pages.length;
    while (this.#free.length < wanted) {
      const oldest = [...this.#conversations.keys()].find((name) => name !== conversation && !inUse.has(name));
      if (oldest === undefined) return null;
      this.end(oldest);
    }
    for (let added = 0; added < wanted; added++) {
      const page = this.#free.pop();
      invariant(page !== undefined, 'a page is free');
      known.pages.push(page);
    }
    known.length += rows;
    return known.pages;
  }

  /** Its pages are free. */
  end(conversation: string): void {
    const known = this.#conversations.get(conversation);
    if (!known) return;
    this.#free.push(...known.pages.toReversed());
    this.#conversations.delete(conversation);
  }
}

/** The row of the cache that a position has. */
export const placeOfPosition = (pages: readonly number[], position: number): number =>
  at(pages, Math.floor(position / PAGE_ROWS)) * PAGE_ROWS + (position % PAGE_ROWS);
