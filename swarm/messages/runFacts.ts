/**
 * What a donor needs to know of the run before its first plan: the run file's part that computes, and where the texts'
 * tokens are.
 */
import { z } from 'zod';
import { hash } from '../fields.ts';
import { blockName } from '../plan/plan.ts';
import { COMPUTE_PRECISIONS } from '../precision.ts';
import type { Order, TokenList } from '../run/data.ts';
import { trainSchema } from '../run/runFile.ts';
import { RUN_WIRES } from '../wire.ts';

/** A list of tokens cut into shards, each a blob named by the SHA-256 of its bytes. */
const tokenListSchema: z.ZodType<TokenList> = z.object({
  kind: z.literal('rows').exactOptional(),
  tokens: z.int().min(0),
  shardTokens: z.int().min(1),
  bytesPerToken: z.literal([1, 2, 4]),
  shards: z.array(hash),
  counted: hash.exactOptional(),
  countedRows: z.int().min(1).exactOptional(),
});

const orderSchema: z.ZodType<Order> = z.discriminatedUnion('type', [
  z.object({ type: z.literal('sequential') }),
  z.object({ type: z.literal('shuffled'), seed: z.int().min(0) }),
]);

/** What a donor needs to know of the run before its first plan. `model` is the config.json; the page makes the table of it. */
export const runFactsSchema = z.object({
  name: z.string(),
  model: z.record(z.string(), z.unknown()),
  train: trainSchema,
  data: tokenListSchema,
  order: orderSchema,
  evaluation: tokenListSchema.nullable(),
  /** How the stream goes from peer to peer. */
  wire: z.enum(RUN_WIRES),
  /** What the run asks for; absent: f32. */
  compute: z.enum(COMPUTE_PRECISIONS).optional(),
  /** How gradient sums and values go between holders and keepers; absent: as floats. */
  stateWire: z.literal('int8').exactOptional(),
  /** Only the operator's own donors have the first and last stage; absent: anyone may. */
  ends: z.literal('own').exactOptional(),
  /** Of a run with an adapter: the pieces of the weights that stand, each named by the SHA-256 of its bytes. */
  base: z
    .array(z.object({ block: blockName, pieces: z.array(hash).readonly() }))
    .readonly()
    .exactOptional(),
});
export type RunFacts = z.infer<typeof runFactsSchema>;
