/**
 * How many bytes the server still carries from one donor to another. Where both are at gateways of a site one of those counts
 * instead: what changed since it was told last is told it as one change, so that it comes to the same however late it hears.
 */

/** What a gateway may still carry is first cut to `most` (null: it is not), then `more` is added. */
export interface Grant {
  readonly most: number | null;
  readonly more: number;
}

export class Allowance {
  #bytes = 0;
  /** Of whoever counts beside: what it had of an earlier way counts no more. */
  #most: number | null = 0;
  #more = 0;

  get bytes(): number {
    return this.#bytes;
  }

  grow(bytes: number): void {
    this.#bytes += bytes;
    this.#more += bytes;
  }

  cutTo(most: number): void {
    this.#bytes = Math.min(this.#bytes, most);
    // Of two cuts with something added between them the lower one counts.
    const cut = most - this.#more;
    this.#most = this.#most === null ? cut : Math.min(this.#most, cut);
  }

  /** Whether so much is left: then it is taken off. */
  take(bytes: number): boolean {
    if (this.#bytes < bytes) return false;
    this.#bytes -= bytes;
    this.#more -= bytes;
    return true;
  }

  /** So much went past this server, as a gateway says. */
  spent(bytes: number): void {
    this.#bytes = Math.max(0, this.#bytes - bytes);
  }

  /** What changed since this was asked last. */
  handOn(): Grant {
    const grant = { most: this.#most, more: this.#more };
    this.#most = null;
    this.#more = 0;
    return grant;
  }
}

/** What is left of `bytes` after it; never below nothing. */
export const granted = (bytes: number, { most, more }: Grant): number =>
  Math.max(0, (most === null ? bytes : Math.min(bytes, most)) + more);
