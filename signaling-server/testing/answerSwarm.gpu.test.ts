/**
 * Donors that answer while they train, in one process on Dawn: with a rate of 0 every greedy answer is the reference's, each
 * step has the same bits as without answers, and no conversation has another one's tokens.
 */
import { beforeAll, expect, test } from 'vitest';
import { dawnDevice } from '../../shaders/testing/dawn.ts';
import { Answering } from '../../swarm/answers/answering.ts';
import { Pages } from '../../swarm/answers/pages.ts';
import { arrayOf, at, below, got, invariant, type PeerId, peerId, seededRandom } from '../../swarm/base.ts';
import { answerBuffers } from '../../swarm/memory/answerMemory.ts';
import {
  ANSWER_DRAWS,
  ANSWER_ROWS,
  type AnsweredMessage,
  type UnansweredMessage,
} from '../../swarm/messages/answerWords.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import { generate } from '../../swarm/reference/generate.ts';
import { referenceTensors } from '../../swarm/reference/trainer.ts';
import { Answers } from '../../web/src/executor/answers.ts';
import { FULL_SPEED } from '../../web/src/executor/dutyCycle.ts';
import { IdleWindows } from '../../web/src/executor/idleWindows.ts';
import { type Engine, roleBytes } from '../../web/src/executor/role.ts';
import { gpuEngine, gpuOf } from '../../web/src/gpu/engine.ts';
import { OneProcess } from '../../web/src/testing/oneProcess.ts';
import { type GoldenCase, openGoldenCase } from './goldenCase.ts';

const STEPS = 3;
const now = (): number => performance.now() / 1000;

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
beforeAll(async () => {
  dawn = await dawnDevice();
});

interface Told {
  readonly peer: PeerId;
  readonly message: AnsweredMessage | UnansweredMessage;
}

/** Everyone's answers, and what decides of them; `bytes`: what each donor may have on its GPU. */
function answersOf(swarm: OneProcess, engine: Engine, plan: Plan, bytes: number | null) {
  const { vocabulary } = at(swarm.roles, 0).model;
  const told: Told[] = [];
  const donors = new Map<PeerId, Answers>();
  const answering: Answering = new Answering(vocabulary, (to, message) =>
    queueMicrotask(() => got(donors, to).asked(message)),
  );
  for (const role of swarm.roles) {
    donors.set(
      role.peer,
      new Answers({
        now,
        wait: (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds)),
        // As after a long rest: whatever comes fits.
        windows: new IdleWindows(now, now() - 100),
        throttle: { ...FULL_SPEED, freeInSeconds: 0, speed: 1 },
        role: () => ({ role, engine, steps: 7 }),
        mayAnswer: async () => true,
        answering: () => {},
        memoryBytes: () => bytes,
        sendServer: (message) => {
          told.push({ peer: role.peer, message });
          if (message.type === 'answered') answering.answered(role.peer, message, 0);
          else answering.unanswered(role.peer, message, 0);
        },
        sendFrames: async (to, frames) => {
          for (const frame of frames) got(donors, to).accept(role.peer, frame);
        },
      }),
    );
  }
  answering.planned({ epoch: at(swarm.roles, 0).epoch, plan }, 0);
  return { answering, told, close: () => donors.forEach((one) => void one.clear()) };
}

type Asked = { readonly tokens: number[]; readonly done: Promise<string | null> };

function ask(answering: Answering, ids: readonly number[], mostTokens: number, temperature = 0): Asked {
  const tokens: number[] = [];
  const done = new Promise<string | null>((ended) => {
    const asker = {
      token: (token: number, by: object) => {
        expect(by).toMatchObject({ fromStep: 7, toStep: 7 });
        tokens.push(token);
      },
      ended,
    };
    answering.ask({ from: 'someone', ids, mostTokens, temperature, topP: 1, seed: 0 }, asker, 0);
  });
  return { tokens, done };
}

async function prompts({ model, weights }: GoldenCase, count: number, temperature = 0) {
  const blocks = new Map<string, Float32Array>();
  for (const { name, elements } of model.blocks) blocks.set(name, await weights.readBlock(name, 0, elements));
  const tensors = referenceTensors(model, (block) => got(blocks, block));
  const random = seededRandom(11);
  return arrayOf(count, (i) => {
    const length = i === 0 ? 1 : i === 1 ? model.positions : 1 + below(random, model.positions - 1);
    const ids = arrayOf(length, () => below(random, model.vocabulary));
    const most = Math.min(9, model.positions + 1 - length);
    return { ids, wanted: generate(model, tensors, ids, { count: most, temperature, seed: 0, atFull: 'end' }) };
  });
}

const standing = (golden: GoldenCase): GoldenCase['run']['train'] => {
  const { train } = golden.run;
  return { ...train, optimizer: { ...train.optimizer, learningRate: 0 } };
};

test.each([
  ['gpt2-tiny', 2],
  ['llama-tiny', 1],
  ['llama-tiny', 2],
] as const)(
  '[AN1] %s by %i donors: the answers of the reference, and each step as without them',
  async (name, count) => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    const golden = await openGoldenCase(name);
    const { model, readState: read, tokens } = golden;
    const train = standing(golden);
    const peers = arrayOf(count, (i) => peerId(`donor-${i}`));
    const plan = equalSplit(model, train.globalBatchSize, peers, { microBatches: 4 });
    const engine = gpuEngine(gpuOf(dawn.value), model, train);
    const alone = await OneProcess.open({ engine, model, train, plan, read, tokens });
    const wanted = [];
    for (let step = 0; step < STEPS; step++) wanted.push(await alone.step(step));
    alone.close();

    const swarm = await OneProcess.open({ engine, model, train, plan, read, tokens });
    const { answering, told, close } = answersOf(swarm, engine, plan, null);
    const asked = (await prompts(golden, 9)).map(({ ids, wanted }) => ({
      wanted,
      ...ask(answering, ids, wanted.length),
    }));
    const steps = [];
    for (let step = 0; step < STEPS; step++) steps.push(await swarm.step(step));
    expect(await Promise.all(asked.map(({ done }) => done))).toEqual(asked.map(() => null));
    expect(steps).toEqual(wanted);
    for (const { tokens, wanted } of asked) expect(tokens).toEqual(wanted);
    expect(told.filter(({ message }) => message.type === 'unanswered')).toEqual([]);
    close();
    swarm.close();
  },
);

test('[AN4] answers that are drawn are those of the reference with the same seed', async () => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const golden = await openGoldenCase('llama-tiny');
  const { model, readState: read, tokens } = golden;
  const train = standing(golden);
  const plan = equalSplit(model, train.globalBatchSize, [peerId('a'), peerId('b')], { microBatches: 4 });
  const engine = gpuEngine(gpuOf(dawn.value), model, train);
  const swarm = await OneProcess.open({ engine, model, train, plan, read, tokens });
  const { answering, close } = answersOf(swarm, engine, plan, null);
  const asked = (await prompts(golden, 6, 0.7)).map(({ ids, wanted }) => ({
    wanted,
    ...ask(answering, ids, wanted.length, 0.7),
  }));
  await Promise.all(asked.map(({ done }) => done));
  for (const { tokens, wanted } of asked) expect(tokens).toEqual(wanted);
  close();
  swarm.close();
});

test('[AN3] memory for few conversations: those that were put out are read in again, and answered alike', async () => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const golden = await openGoldenCase('gpt2-tiny');
  const { model, readState: read, tokens } = golden;
  const train = standing(golden);
  const [peer] = [peerId('donor')];
  const plan = equalSplit(model, train.globalBatchSize, [peer], { microBatches: 4 });
  const engine = gpuEngine(gpuOf(dawn.value), model, train);
  const swarm = await OneProcess.open({ engine, model, train, plan, read, tokens });
  const [role] = swarm.roles;
  invariant(role, 'a plan has a peer');
  const size = { layers: [0, model.layers] as const, rows: ANSWER_ROWS, draws: ANSWER_DRAWS };
  const room = answerBuffers(model, { ...size, pages: Pages.countFor(model.positions, 2) });
  const bytes = room.reduce((sum, buffer) => sum + buffer.bytes, roleBytes(role));
  const { answering, told, close } = answersOf(swarm, engine, plan, bytes);
  const asked = (await prompts(golden, 6)).map(({ ids, wanted }) => ({
    wanted,
    ...ask(answering, ids, wanted.length),
  }));
  expect(await Promise.all(asked.map(({ done }) => done))).toEqual(asked.map(() => null));
  for (const { tokens, wanted } of asked) expect(tokens).toEqual(wanted);
  expect(told.some(({ message }) => message.type === 'unanswered')).toBe(true);
  close();
  swarm.close();
});
