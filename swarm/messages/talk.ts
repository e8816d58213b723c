/** What the page `/talk` is told of the model that it asks. */
import { z } from 'zod';
import { count } from '../fields.ts';

export const talkFactsSchema = z.object({
  run: z.string(),
  committedSteps: count,
  /** Of the whole run. */
  steps: count,
  /** Saved states that can be asked beside the newest weights, by their steps: the newest first, the initial one last. */
  checkpoints: z.array(count),
  /** Also those that stand beside an adapter. */
  parameters: count,
  /** The weights that it began with had been trained before. */
  wasTrained: z.boolean(),
  /** Tokens of question and answer together that it reads. */
  positions: count,
  /** text: it goes on with one; turns: it answers messages. */
  reads: z.enum(['text', 'turns']),
  /** The operator lets nobody ask. */
  isOff: z.boolean(),
});
export type TalkFacts = z.infer<typeof talkFactsSchema>;
