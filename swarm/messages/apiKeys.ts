/** Keys of those who may ask a model, as an operator's page makes and lists them. */
import { z } from 'zod';

/** Who may ask: nobody, who has a key, or anyone, by address. */
export const API_MODES = ['off', 'keys', 'open'] as const;
export type ApiMode = (typeof API_MODES)[number];

export const apiKeyDraftSchema = z.object({
  /** For whom it is, to tell it from others. */
  name: z.string().trim().min(1).max(80),
  /** Prompts' and answers' together. */
  tokensAnHour: z.int().min(1).max(1_000_000_000),
});
export type ApiKeyDraft = z.infer<typeof apiKeyDraftSchema>;

export const apiKeySchema = apiKeyDraftSchema.extend({ id: z.string(), madeAtMs: z.number() });
/** How questions to the active run have been answered in the newest five minutes. */
const answerNumbersSchema = z.object({
  /** Questions that are being answered, or wait. */
  open: z.number(),
  tokensPerSecond: z.number(),
  /** From the question on; most: of 95 in a hundred no later. Null: none was asked. */
  firstTokenSeconds: z.object({ median: z.number().nullable(), most: z.number().nullable() }),
  /** For want of a place. */
  sentAway: z.number(),
  /** Of the donors' time, in which their GPUs did nothing but answer. */
  donorShare: z.number(),
});
export type AnswerNumbers = z.infer<typeof answerNumbersSchema>;

export const apiKeyListSchema = z.object({
  mode: z.enum(API_MODES),
  keys: z.array(apiKeySchema),
  answers: answerNumbersSchema,
});
export type ApiKeyList = z.infer<typeof apiKeyListSchema>;
