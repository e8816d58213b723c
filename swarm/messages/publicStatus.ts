/** What a server tells anyone of its run. */
import { z } from 'zod';
import { snapshotSchema } from './snapshot.ts';

const point = z.tuple([z.number(), z.number()]);
export const publicStatusSchema = z.object({
  ...snapshotSchema.pick({
    ...{ run: true, phase: true, sentence: true, committedSteps: true, steps: true },
    ...{ loss: true, evaluationLoss: true, tokensPerSecond: true },
  }).shape,
  /** Those that compute. */
  donors: z.int(),
  /** Loss after so many steps, evenly spread. */
  curve: z.array(point),
  evaluations: z.array(point),
  checkpointStep: z.int(),
});
export type PublicStatus = z.infer<typeof publicStatusSchema>;
