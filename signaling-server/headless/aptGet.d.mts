interface Parts {
  /** Runs apt-get once. */
  readonly attempt?: (words: readonly string[]) => { readonly ok: boolean; readonly errors: string };
  readonly wait?: () => Promise<void>;
}
export declare function aptGet(words: readonly string[], say: (text: string) => void, parts?: Parts): Promise<boolean>;
