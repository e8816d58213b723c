/** What is told of an answer until somebody takes it: tokens, then that it is over. */
export class TokenStream<Token> {
  readonly #tokens: Token[] = [];
  #end: { readonly fault: Error | null } | null = null;
  #wake: () => void = () => {};

  push(token: Token): void {
    this.#tokens.push(token);
    this.#wake();
  }

  /** `fault`: thrown behind the tokens; null: that was all. Only the first end counts. */
  end(fault: Error | null): void {
    this.#end ??= { fault };
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Token> {
    for (;;) {
      const token = this.#tokens.shift();
      if (token !== undefined) yield token;
      else if (this.#end === null)
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      else if (this.#end.fault === null) return;
      else throw this.#end.fault;
    }
  }
}
