/**
 * What a journal's messages say. An entry has transactions of the store, as their statements and values, or the word that
 * a server leads from here on. One that does not fit in a message goes in parts.
 */
import { z } from 'zod';
import { arrayOf, at } from '../../swarm/base.ts';
import type { Value } from '../store/queries.ts';

/** A statement and its values. */
export type Write = readonly [sql: string, ...values: Value[]];

/** They are numbered from 1 on, over all of a site's life. */
export interface Transaction {
  readonly number: number;
  readonly writes: readonly Write[];
}

export type Entry =
  /** Whoever wrote before writes no more; the store is of this version from here on. */
  | { readonly type: 'leads'; readonly version: number }
  | { readonly type: 'writes'; readonly transactions: readonly Transaction[] };

/** Who wrote it, as which of its entries; and which part of how many this is. */
const headSchema = z.object({ by: z.string(), entry: z.int(), part: z.int(), parts: z.int() });
type Head = z.infer<typeof headSchema>;

/** JSON has no infinite numbers: one stands in a list, as a text. */
const valueSchema = z.union([z.string(), z.number(), z.null(), z.tuple([z.string()])]);
const entrySchema = z.union([
  z.object({ leads: z.int() }),
  z.object({
    first: z.int(),
    // Each statement's text once, however often it is run.
    sql: z.array(z.string()),
    transactions: z.array(z.array(z.tuple([z.int()]).rest(valueSchema))),
  }),
]);

const END_OF_HEAD = 10;
/** A message's head is shorter. */
const HEAD_BYTES = 256;

const packed = (value: Value): unknown =>
  typeof value === 'number' && !Number.isFinite(value) ? [String(value)] : value;
const unpacked = (value: z.infer<typeof valueSchema>): Value => (Array.isArray(value) ? Number(at(value, 0)) : value);

function textOf(entry: Entry): string {
  if (entry.type === 'leads') return JSON.stringify({ leads: entry.version });
  const numbers = new Map<string, number>();
  const transactions = entry.transactions.map(({ writes }) =>
    writes.map(([sql, ...values]) => {
      const number = numbers.get(sql) ?? numbers.size;
      numbers.set(sql, number);
      return [number, ...values.map(packed)];
    }),
  );
  return JSON.stringify({ first: at(entry.transactions, 0).number, sql: [...numbers.keys()], transactions });
}

function entryIn(text: string): Entry {
  const found = entrySchema.parse(JSON.parse(text));
  if ('leads' in found) return { type: 'leads', version: found.leads };
  const { first, sql, transactions } = found;
  return {
    type: 'writes',
    transactions: transactions.map((writes, index) => ({
      number: first + index,
      writes: writes.map(([number, ...values]): Write => [at(sql, number), ...values.map(unpacked)]),
    })),
  };
}

/** The messages of an entry, of `messageBytes` at most. */
export function messagesOf(entry: Entry, { by, entry: number }: Pick<Head, 'by' | 'entry'>, messageBytes: number) {
  const text = Buffer.from(textOf(entry));
  const size = messageBytes - HEAD_BYTES;
  const parts = Math.ceil(text.length / size);
  return arrayOf(parts, (part): Uint8Array => {
    const head: Head = { by, entry: number, part, parts };
    return Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), text.subarray(part * size, (part + 1) * size)]);
  });
}

/** Puts entries together from messages in order. One whose writer ended before its last part never was. */
export class Entries {
  #head: Head | null = null;
  #parts: Uint8Array[] = [];

  /** Null: more of it is to come. */
  take(bytes: Uint8Array): Entry | null {
    const end = bytes.indexOf(END_OF_HEAD);
    const head = headSchema.parse(JSON.parse(Buffer.from(bytes.subarray(0, end)).toString()));
    if (this.#head?.by !== head.by || this.#head.entry !== head.entry) this.#parts = [];
    this.#head = head;
    if (head.part !== this.#parts.length) return null; // its beginning is of a time before
    this.#parts.push(bytes.subarray(end + 1));
    if (this.#parts.length < head.parts) return null;
    const text = Buffer.concat(this.#parts).toString();
    this.#parts = [];
    return entryIn(text);
  }
}
