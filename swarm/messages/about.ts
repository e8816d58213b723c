/** What a page is told of the run before it joins: enough to say what would run here, and to try how fast. */
import { z } from 'zod';
import { count } from '../fields.ts';
import { runFactsSchema } from './runFacts.ts';

/** Nothing that moves a terminal or turns the direction of what is written around it. */
const PLAIN = /^(?:\n|[^\p{Cc}\u202A-\u202E\u2066-\u2069])*$/u;
const words = (most: number) => z.string().max(most).regex(PLAIN);

/** A page of the web. Not one whose address begins with a name, which passes for another site's. */
function isLink(text: string): boolean {
  if (text === '') return true;
  const url = URL.canParse(text) ? new URL(text) : null;
  return url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '';
}

/** What a run is for, in its operator's words; each may be empty. */
export const runCardSchema = z.object({
  purpose: words(600),
  /** Who trains it: a person, a class, a project. */
  by: words(100).default(''),
  /** What it is trained on. */
  text: words(200),
  /** Of the model. */
  licence: words(100),
  link: words(500).refine(isLink),
});
export type RunCard = z.infer<typeof runCardSchema>;
export const EMPTY_CARD: RunCard = { purpose: '', by: '', text: '', licence: '', link: '' };

export const aboutSchema = z.object({
  ...runFactsSchema.pick({ name: true, model: true, train: true, ends: true }).shape,
  /** Targets of a step, or their mean. */
  stepTargets: z.number().positive(),
  /** Of the whole model. */
  parameters: z.int().min(0),
  /** What the operator says of it; null: nothing. */
  card: runCardSchema.nullable(),
});
export type About = z.infer<typeof aboutSchema>;

/** What the newest saved state writes; null: nothing was saved yet. */
export const publicSampleSchema = z.object({
  sample: z.object({ committedSteps: count, prompt: z.string(), text: z.string() }).nullable(),
});
export type PublicSample = z.infer<typeof publicSampleSchema>['sample'];
