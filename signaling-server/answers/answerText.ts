/**
 * An answer's tokens as text, in pieces that can be sent as they come: none ends inside a character, and none shows the
 * beginning of a stop string that may go on. The pieces together are what decoding prompt and answer has beyond the
 * prompt's text, up to the end token or the first stop string.
 */
import type { AnsweredToken, Provenance } from './answerer.ts';
import type { RunText } from './runTexts.ts';

interface Asked {
  readonly text: Pick<RunText, 'ends' | 'added'>;
  /** The prompt. */
  readonly ids: readonly number[];
  readonly stops: readonly string[];
}

export class AnswerText {
  readonly #asked: Asked;
  readonly #tokens: AsyncIterable<AnsweredToken>;
  /** An end token among them, too. */
  #count = 0;
  #finish: 'stop' | 'length' = 'length';
  #provenance: Provenance = { fromStep: 0, toStep: 0, donors: 0 };

  constructor(asked: Asked, tokens: AsyncIterable<AnsweredToken>) {
    [this.#asked, this.#tokens] = [asked, tokens];
  }

  /** Of what has been written. */
  get usage() {
    const { length: prompt } = this.#asked.ids;
    return { prompt_tokens: prompt, completion_tokens: this.#count, total_tokens: prompt + this.#count };
  }

  get finishReason(): 'stop' | 'length' {
    return this.#finish;
  }

  get shoal(): Provenance {
    return this.#provenance;
  }

  async *pieces(): AsyncGenerator<string> {
    const { text, ids, stops } = this.#asked;
    const longest = Math.max(0, ...stops.map(({ length }) => length));
    const added: number[] = [];
    let [whole, sent] = ['', ''];
    for await (const { token, ...provenance } of this.#tokens) {
      this.#count++;
      this.#provenance = provenance;
      if (text.ends.includes(token)) {
        this.#finish = 'stop';
        break;
      }
      added.push(token);
      const known = whole;
      whole = await text.added(ids, added);
      const from = whole.startsWith(known) ? Math.max(0, known.length - longest) : 0;
      const stop = firstStop(whole, stops, from);
      if (stop >= 0) {
        this.#finish = 'stop';
        whole = whole.slice(0, stop);
        break;
      }
      const safe = whole.slice(0, whole.length - heldBack(whole, stops));
      // A tokenizer may word what it had otherwise: what is sent stays.
      if (!safe.startsWith(sent) || safe.length === sent.length) continue;
      yield safe.slice(sent.length);
      sent = safe;
    }
    if (whole.startsWith(sent) && whole.length > sent.length) yield whole.slice(sent.length);
  }
}

/** Where the first of them begins, at or behind `from`; -1: none does. */
function firstStop(text: string, stops: readonly string[], from: number): number {
  const places = stops.map((stop) => text.indexOf(stop, from)).filter((place) => place >= 0);
  return places.length === 0 ? -1 : Math.min(...places);
}

/** The length of the longest end of the text that one of them begins with. */
function heldBack(text: string, stops: readonly string[]): number {
  let most = 0;
  for (const stop of stops)
    for (let length = Math.min(stop.length - 1, text.length); length > most; length--)
      if (text.endsWith(stop.slice(0, length))) most = length;
  return most;
}
