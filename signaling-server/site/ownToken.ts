/**
 * Each process of a site prints a token that opens an operator's session, wherever the run is led: whoever leads is told it,
 * and says when it was used.
 */
import { newToken } from '../operator/session.ts';
import type { Exchange } from './exchange.ts';
import { encodeOpening } from './opening.ts';
import type { Pipe } from './pipe.ts';

export const USED = 1;

export class OwnToken {
  readonly #exchange: Exchange;
  readonly #onNew: (token: string) => void;
  #pipe: Pipe | null = null;
  #leader: string | null = null;
  current = newToken();

  constructor(exchange: Exchange, onNew: (token: string) => void) {
    this.#exchange = exchange;
    this.#onNew = onNew;
  }

  /** Called with each look, also where nothing changed. */
  follow(leader: string | null): void {
    if (leader !== this.#leader) this.#drop();
    this.#leader = leader;
    if (leader !== null && this.#pipe === null) this.#tell(leader);
  }

  #drop(): void {
    this.#pipe?.reset();
    this.#pipe = null;
  }

  #tell(leader: string): void {
    const pipe = this.#exchange.open(leader, encodeOpening({ what: 'token', token: this.current }));
    this.#pipe = pipe;
    const over = (): void => {
      if (this.#pipe === pipe) this.#pipe = null;
    };
    pipe.read({
      onMessage: (kind, _message, taken) => {
        taken();
        if (kind !== USED || this.#pipe !== pipe) return;
        this.#drop();
        this.current = newToken();
        this.#onNew(this.current);
        this.follow(this.#leader);
      },
      onClosed: over,
    });
  }
}
