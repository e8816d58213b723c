/** The server's own processor: whom it answers, how many at a time, and what ends with whom. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { invariant } from '../../swarm/base.ts';
import { generate } from '../../swarm/reference/generate.ts';
import { modelOf } from '../../swarm/run/runFile.ts';
import { checkpointWeights, parseManifest } from '../store/checkpointState.ts';
import { addRun, type DataDirectory } from '../store/dataDirectory.ts';
import { storedDocument } from '../store/runDocument.ts';
import { TinyServers, tinyRunFile } from '../testing/tinyServers.ts';
import { tensorsOf } from '../texts/sampleText.ts';
import { type AnsweredToken, AnswerFault, type ModelAnswer } from './answerer.ts';
import { ProcessorAnswerer } from './processorAnswerer.ts';

const QUESTION = {
  from: 'key',
  run: 'tiny',
  step: null,
  ids: [67, 97],
  mostTokens: 9,
  temperature: 0,
  topP: 1,
  seed: 1,
  ends: [] as number[],
};
/** All that a model of 16 positions writes after two tokens. */
const MOST = 15;
const NEVER = new AbortController().signal;

let servers: TinyServers;
let data: DataDirectory;
let answerer: ProcessorAnswerer;
beforeEach(async () => {
  servers = new TinyServers({ steps: 1 });
  data = await servers.data();
  const added = await addRun(data, servers.runPath);
  invariant(added.ok, 'the run is there');
  answerer = new ProcessorAnswerer(data);
});
afterEach(async () => {
  answerer.close();
  await servers.close();
});

async function tokensIn(answer: ModelAnswer): Promise<AnsweredToken[]> {
  if (!answer.ok) throw new Error(`refused: ${JSON.stringify(answer.refusal)}`);
  const tokens: AnsweredToken[] = [];
  for await (const token of answer.tokens) tokens.push(token);
  return tokens;
}
const ask = async (part: Partial<typeof QUESTION> & { step?: number } = {}, signal = NEVER) =>
  tokensIn(await answerer.answer({ ...QUESTION, ...part }, signal));

/** What the reference writes with the weights of checkpoint 0. */
async function expected(sampling: { temperature: number; topP?: number; seed: number }): Promise<number[]> {
  const model = modelOf(storedDocument(data.store, 'tiny').file);
  const manifest = parseManifest(data.store.checkpoint('tiny', 0) ?? '');
  const tensors = await tensorsOf(model, checkpointWeights(data.blobs, manifest));
  return generate(model, tensors, [67, 97], { ...sampling, count: 9, atFull: 'end' });
}

it('answers as the reference does, greedily or drawn, and says of which steps', async () => {
  const greedy = await ask();
  expect(greedy.map(({ token }) => token)).toEqual(await expected({ temperature: 0, seed: 1 }));
  expect(greedy[0]).toMatchObject({ fromStep: 0, toStep: 0, donors: 0 });
  const drawn = await ask({ temperature: 1.2, topP: 0.4, seed: 5 });
  expect(drawn.map(({ token }) => token)).toEqual(await expected({ temperature: 1.2, topP: 0.4, seed: 5 }));
});

it('ends after an end token, which it tells, and where the positions are full', async () => {
  const tokens = (await ask()).map(({ token }) => token);
  const [end] = tokens.slice(3);
  invariant(end, 'it has as many');
  const ended = await ask({ ends: [end] });
  expect(ended.map(({ token }) => token)).toEqual(tokens.slice(0, tokens.indexOf(end) + 1));
  expect(await ask({ mostTokens: MOST })).toHaveLength(MOST);
});

it('has no weights of another checkpoint or run', async () => {
  expect(await answerer.answer({ ...QUESTION, step: 7 } as never, NEVER)).toMatchObject({
    refusal: { of: 'notThere', sentence: expect.stringContaining('checkpoint 7 of tiny') },
  });
  expect(await answerer.answer({ ...QUESTION, run: 'none' }, NEVER)).toMatchObject({ refusal: { of: 'notThere' } });
});

it('answers two at a time, has sixteen wait, and sends others away until there is a place', async () => {
  const ends = Array.from({ length: 19 }, () => new AbortController());
  const answers = ends.map((end) => answerer.answer({ ...QUESTION, mostTokens: MOST }, end.signal));
  const last = await answers[18];
  expect(last).toMatchObject({ ok: false, refusal: { of: 'busy', retrySeconds: expect.any(Number) } });
  // One that waits and goes makes a place, as one that is answered does.
  ends[17]?.abort();
  expect(await answers[17]).toMatchObject({ ok: false });
  const again = answerer.answer(QUESTION, NEVER);
  for (const answer of answers.slice(0, 17)) expect(await tokensIn(await answer)).toHaveLength(MOST);
  expect(await tokensIn(await again)).toHaveLength(9);
});

it('ends an answer with its signal, and its place is another’s', async () => {
  const [first, second] = [new AbortController(), new AbortController()];
  const begun = await Promise.all([first, second].map(({ signal }) => answerer.answer(QUESTION, signal)));
  first.abort();
  second.abort();
  for (const answer of begun) expect((await tokensIn(answer)).length).toBeLessThan(9);
  expect(await ask()).toHaveLength(9);
});

it('tells whoever waits for it that it closes', async () => {
  const answer = await answerer.answer({ ...QUESTION, mostTokens: MOST }, NEVER);
  answerer.close();
  await expect(tokensIn(answer)).rejects.toThrow(AnswerFault);
  expect(await answerer.answer(QUESTION, NEVER)).toMatchObject({ refusal: { of: 'notThere' } });
});

it('does not begin with a model that a processor is too slow for, or a context that it has no room for', async () => {
  const { model, ...rest } = tinyRunFile({ steps: 1, name: 'large' });
  servers.writeRun({ ...rest, model: { ...model, n_positions: 2_600_000 } });
  expect((await addRun(data, servers.runPath)).ok).toBe(true);
  expect(await answerer.answer({ ...QUESTION, run: 'large' }, NEVER)).toMatchObject({
    refusal: { of: 'tooLarge', sentence: expect.stringContaining('20000000') },
  });
  const wide = { ...QUESTION, run: 'large', mostTokens: 2_000_000, largestModel: 1e9 };
  expect(await answerer.answer(wide, NEVER)).toMatchObject({
    // Two layers of 3 · 8 numbers and 2 heads, 8 bytes each.
    refusal: { of: 'tooLarge', sentence: expect.stringContaining(String(Math.floor(2 ** 28 / (2 * 26 * 8)))) },
  });
});

it('holds what it reads until the answer is made, also where none begins', async () => {
  const letGo = vi.fn(async () => {});
  const hold = vi.spyOn(data.blobs, 'hold').mockReturnValue(letGo);
  const answer = await answerer.answer(QUESTION, NEVER);
  expect([hold.mock.calls.length, letGo.mock.calls.length]).toEqual([1, 0]);
  await tokensIn(answer);
  expect(letGo).toHaveBeenCalledTimes(1);
  vi.spyOn(data.blobs, 'problem').mockResolvedValue('its bytes have changed');
  expect(await answerer.answer(QUESTION, NEVER)).toMatchObject({ refusal: { of: 'notThere' } });
  expect([hold.mock.calls.length, letGo.mock.calls.length]).toEqual([2, 2]);
  vi.restoreAllMocks();
});
