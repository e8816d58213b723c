/**
 * What one end of a conversation said, as far as the other may not have heard it: so a conversation goes on where it was
 * when its connection breaks and another one takes its place. Both ends count words from its beginning; a heartbeat, a
 * snapshot and a greeting are none. Rules RE in SPEC.md.
 */
export class Spoken<Word extends { readonly length: number }> {
  /** Words of the other end. */
  heard = 0;
  /** Of this end, and how many of the newest are kept. */
  #said = 0;
  #kept: Word[] = [];
  #keptLength = 0;

  /** Of what is longer than `mostLength` the oldest is forgotten. */
  say(word: Word, mostLength: number): void {
    this.#said += 1;
    this.#kept.push(word);
    this.#keptLength += word.length;
    let forgotten = 0;
    while (this.#keptLength > mostLength) this.#keptLength -= this.#kept[forgotten++]?.length ?? 0;
    this.#kept.splice(0, forgotten);
  }

  /** So many were heard: they are needed no more. */
  confirm(heard: number): void {
    const needed = this.unheard(heard);
    if (needed === null) return;
    this.#kept = [...needed];
    this.#keptLength = needed.reduce((sum, { length }) => sum + length, 0);
  }

  /** Of who has heard so many; null: not all of it is kept, or so many were never said. */
  unheard(heard: number): readonly Word[] | null {
    const count = this.#said - heard;
    return count < 0 || count > this.#kept.length ? null : this.#kept.slice(this.#kept.length - count);
  }
}
