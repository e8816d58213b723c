/**
 * What a checkpoint writes after fixed prompts, kept beside each other. The arithmetic is the CPU reference's, so it runs
 * in a process of its own: a server full of donors answers them meanwhile. One at a time.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { z } from 'zod';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { count } from '../../swarm/fields.ts';
import { modelOf } from '../../swarm/run/runFile.ts';
import { BlobReader } from '../files/blobs.ts';
import { COMMAND_FILE } from '../files/projectRoot.ts';
import { checkpointWeights, manifestHashes, parseManifest, stateProblem } from '../store/checkpointState.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import { parseDocument } from '../store/runDocument.ts';
import { BYTES, sampleText } from '../texts/sampleText.ts';
import { NoTokenError, openTokenizer, type TextTokenizer, TOKENIZER_FILE, TokenizerFault } from '../texts/tokenizer.ts';

const COMMAND = 'sample-process';
/** Past it the model is too large for a CPU. */
const LIMIT_MS = 120_000;
const TEMPERATURE = 0.8;
const SEED = 1;

export const samplesBody = z.object({
  run: z.string().max(200),
  step: count,
  prompts: z.array(z.string().min(1).max(200)).min(1).max(5),
  tokens: z.int().min(1).max(400),
});
type SamplesQuestion = z.infer<typeof samplesBody>;

const taskSchema = z.object({
  blobs: z.string(),
  document: z.string(),
  manifest: z.string(),
  prompts: z.array(z.string()),
  tokens: z.int(),
});
type Task = z.infer<typeof taskSchema>;
const answerSchema = z.discriminatedUnion('ok', [
  z.object({ ok: z.literal(true), value: z.array(z.string()) }),
  z.object({ ok: z.literal(false), reason: z.string() }),
]);

let isBusy = false;
/** Whoever asks now is sent away. */
export const isSampling = (): boolean => isBusy;

/** Writes them to the store; answers how many. */
export async function sampleCheckpoint(
  { store, directory, blobs }: DataDirectory,
  { run, step, prompts, tokens }: SamplesQuestion,
): Promise<Result<number>> {
  const row = store.run(run);
  const manifest = store.checkpoint(run, step);
  if (row === null || manifest === null) return refusal('this checkpoint is gone already');
  if (isBusy) return refusal('another checkpoint is being sampled: wait for it');
  isBusy = true;
  // The run goes on meanwhile, and newer states supersede this one.
  const letGo = blobs.hold(manifestHashes(parseManifest(manifest)));
  try {
    const problem = await stateProblem(blobs, parseManifest(manifest));
    if (problem !== null) return refusal(problem);
    const task: Task = { blobs: join(directory, 'blobs'), document: row.document, manifest, prompts, tokens };
    const texts = await (isBuilt() ? apart(task) : sampled(task));
    if (!texts.ok) return texts;
    for (const [index, prompt] of prompts.entries())
      store.saveSample(run, { committedSteps: step, prompt, text: texts.value[index] ?? '' });
    return success(prompts.length);
  } finally {
    isBusy = false;
    await letGo();
  }
}

const isBuilt = (): boolean => fileURLToPath(import.meta.url).endsWith('.js');

async function apart(task: Task): Promise<Result<string[]>> {
  const child = fork(COMMAND_FILE, [COMMAND], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  const timer = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS);
  try {
    child.send(task);
    const first = await Promise.race([once(child, 'message'), once(child, 'exit').then(() => null)]);
    const answer = answerSchema.safeParse(first?.[0]);
    return answer.success ? answer.data : refusal('this model is too large to be sampled on this machine’s processor');
  } finally {
    clearTimeout(timer);
    child.kill();
  }
}

async function sampled(task: Task): Promise<Result<string[]>> {
  const stored = parseDocument(task.document).tokenizer.find(({ name }) => name === TOKENIZER_FILE);
  const path = stored && new BlobReader(task.blobs).path(stored.hash);
  const tokenizer = path === undefined ? success(BYTES) : await openTokenizer(path);
  if (!tokenizer.ok) return tokenizer;
  try {
    return await sampledWith(tokenizer.value, task);
  } catch (error) {
    if (error instanceof TokenizerFault) return refusal(error.message);
    if (error instanceof NoTokenError) return refusal(`a prompt ${error.message}`);
    throw error;
  } finally {
    tokenizer.value.close();
  }
}

async function sampledWith(
  tokenizer: TextTokenizer,
  { blobs: folder, document, manifest, prompts, tokens }: Task,
): Promise<Result<string[]>> {
  const blobs = new BlobReader(folder);
  const { file } = parseDocument(document);
  const model = modelOf(file);
  const read = checkpointWeights(blobs, parseManifest(manifest));
  const texts: string[] = [];
  for (const prompt of prompts) {
    const ids = await tokenizer.encode(prompt);
    if (ids.length === 0 || ids.some((id) => id >= model.vocabulary))
      return refusal(`the tokenizer has no tokens for the prompt "${prompt}"`);
    const request = { prompt, tokens, temperature: TEMPERATURE, seed: SEED };
    texts.push(await sampleText(model, read, request, tokenizer));
  }
  return success(texts);
}

/** What the process of its own does. */
export function addSampleProcessCommand(program: Command): void {
  program.command(COMMAND, { hidden: true }).action(async () => {
    process.on('disconnect', () => process.exit(1));
    const task = taskSchema.parse((await once(process, 'message'))[0]);
    process.send?.(await sampled(task));
  });
}
