/** What a checkpoint writes after fixed prompts, kept beside each other: by the server's own processor, as it answers anyone. */
import { z } from 'zod';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { count } from '../../swarm/fields.ts';
import { AnswerFault, type AnswerRefusal } from '../answers/answerer.ts';
import type { OwnAnswers } from '../answers/processorAnswerer.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import { withoutEnd } from '../texts/sampleText.ts';
import { TokenizerFault } from '../texts/tokenizer.ts';

/** Past it the model is too large for a CPU. */
const LIMIT_MS = 120_000;
const TOO_LARGE = 'this model is too large to be sampled on this machine’s processor';
/** Elements: an operator may wait longer for a text than anyone else, as far as the machine's memory goes. */
export const LARGEST_SAMPLED = 200_000_000;
const DRAWING = { temperature: 0.8, topP: 1, seed: 1, atFull: 'slide' } as const;

export const samplesBody = z.object({
  run: z.string().max(200),
  step: count,
  prompts: z.array(z.string().min(1).max(200)).min(1).max(5),
  tokens: z.int().min(1).max(400),
});
type SamplesQuestion = z.infer<typeof samplesBody>;

/** Writes them to the store; answers how many. */
export async function sampleCheckpoint(
  { store }: DataDirectory,
  own: OwnAnswers,
  { prompts, ...question }: SamplesQuestion,
  largestModel?: number,
): Promise<Result<number>> {
  const { run, step } = question;
  if (store.run(run) === null || store.checkpoint(run, step) === null)
    return refusal('this checkpoint is gone already');
  const signal = AbortSignal.timeout(LIMIT_MS);
  for (const prompt of prompts) {
    const text = await sampled(own, { ...question, prompt, largestModel }, signal);
    if (!text.ok) return text;
    store.saveSample(run, { committedSteps: step, prompt, text: text.value });
  }
  return success(prompts.length);
}

interface Sampled extends Omit<SamplesQuestion, 'prompts'> {
  readonly prompt: string;
  readonly largestModel: number | undefined;
}

async function sampled(
  { processor, texts }: OwnAnswers,
  { run, step, prompt, tokens, largestModel }: Sampled,
  signal: AbortSignal,
): Promise<Result<string>> {
  try {
    const text = await texts.of(run);
    const ids = await text.encode(prompt);
    if (!ids.ok) return refusal(`a prompt ${ids.reason}`);
    if (ids.value.length === 0) return refusal(`the tokenizer has no tokens for the prompt "${prompt}"`);
    const { ends } = text;
    const question = { from: 'dashboard', run, step, ids: ids.value, mostTokens: tokens, ends, ...DRAWING };
    const answer = await processor.answer({ ...question, ...(largestModel && { largestModel }) }, signal);
    if (!answer.ok) return refusal(signal.aborted ? TOO_LARGE : refusalText(answer.refusal));
    const added: number[] = [];
    for await (const { token } of answer.tokens) added.push(token);
    return signal.aborted ? refusal(TOO_LARGE) : success(await text.added(ids.value, withoutEnd(added, ends)));
  } catch (error) {
    if (error instanceof TokenizerFault || error instanceof AnswerFault) return refusal(error.message);
    throw error;
  }
}

const refusalText = (refused: AnswerRefusal): string =>
  refused.of === 'busy' ? 'others are being answered: ask again in a moment' : refused.sentence;
