/** What the dashboard asks and is told of the examples of a draft: how many there are, what is left out, and the first of them. */
import { z } from 'zod';
import { runDraftSchema, TEXT_NAME } from './runDraft.ts';

export const draftExamplesQuestionSchema = runDraftSchema
  .pick({ source: true, model: true, sequenceLength: true, packing: true })
  .extend({ text: z.string().regex(TEXT_NAME) });
export type DraftExamplesQuestion = z.infer<typeof draftExamplesQuestionSchema>;

/** Numbers of lines: how many, and the first of them. */
const fewLinesSchema = z.object({ count: z.int(), lines: z.array(z.int()) });

const totalsSchema = z.object({
  /** In windows. */
  examples: z.int(),
  windows: z.int(),
  /** Of these examples, as far as they are not cut. */
  tokens: z.int(),
  counted: z.int(),
  /** Those that are cut; and those left out, since nothing counts in what a window has room for, or nothing at all. */
  lines: z.object({ cut: fewLinesSchema, late: fewLinesSchema, empty: fewLinesSchema }),
});
export type ExampleTotals = z.infer<typeof totalsSchema>;

export const draftExamplesSchema = z.object({
  format: z.enum(['completion', 'chat']),
  /** A token is a byte: else the source's tokenizer reads them. */
  isOfBytes: z.boolean(),
  /** The file of the source's tokenizer in which the chat template is; null: none is needed. */
  templateFile: z.string().nullable(),
  sequenceLength: z.int(),
  trained: totalsSchema,
  heldOut: totalsSchema.nullable(),
  first: z.array(
    z.object({
      line: z.int(),
      tokens: z.int(),
      /** Of those that a window has room for. */
      counted: z.int(),
      fate: z.enum(['whole', 'cut', 'late', 'empty']),
      pieces: z.array(z.object({ text: z.string(), isCounted: z.boolean() })),
      /** What a window has no room for. */
      cut: z.string(),
      /** More than are shown. */
      piecesLeft: z.int(),
    }),
  ),
});
export type DraftExamples = z.infer<typeof draftExamplesSchema>;
