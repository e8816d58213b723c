/** What a server tells anyone of its run. */
import { z } from 'zod';
import { count } from '../fields.ts';
import { STATE_WORDS, snapshotSchema } from './snapshot.ts';

const point = z.tuple([count, z.number()]);
export const publicStatusSchema = z.object({
  ...snapshotSchema.pick({
    ...{ run: true, phase: true, sentence: true, committedSteps: true, steps: true, time: true },
    ...{ loss: true, lossPer: true, evaluationLoss: true, tokensPerSecond: true, isFull: true },
    ...{ cannotSave: true },
  }).shape,
  /** The word that the pages have for the phase. */
  state: z.enum(Object.values(STATE_WORDS)),
  /** Those that compute. */
  donors: count,
  /** Loss after so many steps, evenly spread. */
  curve: z.array(point),
  evaluations: z.array(point),
  checkpointStep: count,
  /** The run that the operator has put next; null: none. */
  next: z.string().nullable(),
  /** What one donor sends and receives in a minute; null: not known. */
  minuteTraffic: z
    .object({
      bytes: z.number().min(0),
      /** Moved in the newest steps of the plan in force; else nobody shares a step yet, and this is what an even half would move. */
      isMeasured: z.boolean(),
    })
    .nullable(),
  /** Said to who asks from an address that the operator has blocked. */
  isBlocked: z.literal(true).optional(),
  /** Said to who may ask the model on the page `/talk`. */
  mayTalk: z.literal(true).optional(),
});
export type PublicStatus = z.infer<typeof publicStatusSchema>;
