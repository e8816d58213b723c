/**
 * What the server and the donors of one chain of stages say of an answer that is made in the donors' idle time. A piece is
 * some rows of some conversations; every stage of the chain is told of it, its stream goes from stage to stage, and the last
 * stage says which tokens it drew.
 */
import { z } from 'zod';
import { count, peer } from '../fields.ts';

/** Of one piece: rows of the stream, and of them rows behind which a token is drawn. */
export const ANSWER_ROWS = 32;
export const ANSWER_DRAWS = 16;

const drawSchema = z.object({
  temperature: z.number().min(0).max(2),
  topP: z.number().positive().max(1),
  seed: count,
  number: count,
});

/** Some rows of one conversation, from position `at` on. */
const partSchema = z.object({
  conversation: count,
  at: count,
  rows: z.int().min(1).max(ANSWER_ROWS),
  /** Tokens there, for the first stage; for others none. */
  ids: z.array(count).max(ANSWER_ROWS),
  /** How the token behind the last of these rows is drawn; null: more of the prompt comes. */
  draw: drawSchema.nullable(),
});
export type AnswerPart = z.infer<typeof partSchema>;

/** `from`, `to`: whose stage is before and after this one in the chain; null: none is. */
export const answerMessage = z.object({
  ...{ type: z.literal('answer'), epoch: count, piece: count, stage: count },
  from: peer.nullable(),
  to: peer.nullable(),
  parts: z.array(partSchema).min(1).max(ANSWER_ROWS),
  /** Conversations that are over: their keys and values are needed no more. */
  ended: z.array(count).max(1_024),
});
export type AnswerMessage = z.infer<typeof answerMessage>;

/**
 * A stage has done its part of a piece. `steps`: so many updates stand in its values. `seconds`: its GPU took.
 * `tokens`: of the last stage, by parts that draw.
 */
export const answeredMessage = z.object({
  ...{ type: z.literal('answered'), epoch: count, piece: count, stage: count, steps: count },
  seconds: z.number().min(0),
  tokens: z.array(count).max(ANSWER_DRAWS),
});

/**
 * It could not. gone: keys and values of these conversations are not here any more, and they have to be read in from the
 * beginning. noRoom: this donor has no memory to answer
 * with. unwilling: whoever gives it does not want it to answer now. failed: something went wrong there.
 */
export const unansweredMessage = z.object({
  ...{ type: z.literal('unanswered'), epoch: count, piece: count, stage: count },
  reason: z.enum(['gone', 'noRoom', 'unwilling', 'failed']),
  conversations: z.array(count).max(ANSWER_ROWS),
});
export type AnsweredMessage = z.infer<typeof answeredMessage>;
export type UnansweredMessage = z.infer<typeof unansweredMessage>;
