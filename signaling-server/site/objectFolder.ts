/** Large things of a site by their names: NATS keeps them (natsFolder.ts), tests in memory. */
export interface ObjectFolder {
  /** Resolves once it is kept; what did not come whole is not there. */
  put(name: string, chunks: AsyncIterable<Uint8Array>): Promise<void>;
  /** Null: there is none. The chunks end with an error where they are not what was put. */
  get(name: string): Promise<AsyncIterable<Uint8Array> | null>;
  has(name: string): Promise<boolean>;
  /** Nothing happens where there is none. */
  remove(name: string): Promise<void>;
  list(): Promise<string[]>;
}
