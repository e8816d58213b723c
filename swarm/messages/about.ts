/** What a page is told of the run before it joins: enough to say what would run here, and to try how fast. */
import { z } from 'zod';
import { count } from '../fields.ts';
import { runFactsSchema } from './runFacts.ts';

export const aboutSchema = z.object({
  ...runFactsSchema.pick({ name: true, model: true, train: true }).shape,
  /** Of the whole model. */
  parameters: z.int().min(0),
});
export type About = z.infer<typeof aboutSchema>;

/** What the newest saved state writes; null: nothing was saved yet. */
export const publicSampleSchema = z.object({
  sample: z.object({ committedSteps: count, prompt: z.string(), text: z.string() }).nullable(),
});
export type PublicSample = z.infer<typeof publicSampleSchema>['sample'];
