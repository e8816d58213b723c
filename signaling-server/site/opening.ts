/** What a pipe to another process is for, in most cases to the one that leads: its first message. */
import { Buffer } from 'node:buffer';
import { z } from 'zod';

/** Its id; absent: the one that the site began with. */
const run = z.string().optional();

const openingSchema = z.discriminatedUnion('what', [
  /** A donor's WebSocket, which ends at a gateway. */
  z.object({ what: z.literal('donor'), address: z.string(), isHere: z.boolean(), socket: z.number(), run }),
  /** Of the one that leads: what many donors are sent alike (sharedTexts.ts). */
  z.object({ what: z.literal('texts'), run }),
  /** Of a gateway: what donors of it have relayed to one whose WebSocket, of this number, ends at the other end. */
  z.object({ what: z.literal('relay'), socket: z.number(), run }),
  /** What opens an operator's session, once, as this process has printed it. */
  z.object({ what: z.literal('token'), token: z.string().min(16) }),
  /** One request of a client, in bytes. */
  z.object({ what: z.literal('request'), remoteAddress: z.string(), encrypted: z.boolean(), run }),
]);
export type Opening = z.infer<typeof openingSchema>;

export const encodeOpening = (opening: Opening): Buffer => Buffer.from(JSON.stringify(opening));

export const decodeOpening = (bytes: Buffer): Opening | null => wordsIn(openingSchema, bytes);

/** What the JSON in these bytes says; null: it is none, or says something else. */
export function wordsIn<T>(schema: z.ZodType<T>, bytes: Buffer): T | null {
  try {
    return schema.parse(JSON.parse(bytes.toString('utf8')));
  } catch {
    return null;
  }
}
