/**
 * A swarm of headless donors in emulated homes: real tabs, the real server, lines of their own. How long its steps and
 * rounds take is measured beside what the same server predicts of them.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { predictedMeetingSeconds, predictedSeconds } from '../../../swarm/autoplan/predicting.ts';
import { got, median, totalOf } from '../../../swarm/base.ts';
import { LEAST_SPEED, NO_LIMITS } from '../../../swarm/limits.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import { failed, need } from '../../commands/failure.ts';
import { PAGES_FOLDER } from '../../files/projectRoot.ts';
import { closeAll, type HeadlessDonor, openHeadlessDonor } from '../../headless/headless.ts';
import { monotonicMs } from '../../monitoring/clock.ts';
import { terminalLog } from '../../monitoring/log.ts';
import { createServer, type Server } from '../../server.ts';
import { addRun, type DataDirectory, openDataDirectory } from '../../store/dataDirectory.ts';
import { type BenchFolder, inBenchFolder } from '../benchFolder.ts';
import { benchOptimizer } from '../page/optimizer.ts';
import { openHomes, STUN_SERVER, turnServerOf } from './homes.ts';
import type { Line } from './line.ts';
import type { NatKind } from './nat.ts';

/** Pipelines are warm, links have found their rate, and the donors know what their work takes. */
const WARM_UP_STEPS = 6;
/**
 * Of this machine, what all donors may take together. Homes do not share a processor: with more, donors would wait for each
 * other's work, which no plan knows of.
 */
const SPEED_OF_ALL = 0.8;
/** Of an island, from meeting to meeting. */
const MOST_INNER_STEPS = 6;

interface HomeSwarm {
  readonly line: Line;
  /** Of the homes' routers. */
  readonly nats: readonly NatKind[];
  readonly hasTurn: boolean;
  /** The home of each donor, in the order in which they are opened. */
  readonly donors: readonly number[];
  /** 1: one swarm that takes its steps together. */
  readonly islands: number;
  readonly microBatches: number;
  /** Of each island; absent: as many as its donors. */
  readonly stages?: number;
  /** A run file without islands; its data is one file of text. */
  readonly run: Readonly<Record<string, unknown>> & { readonly train: Readonly<Record<string, unknown>> };
  /** Timed steps of each island; whole rounds, so that they may be some more. */
  readonly steps: number;
}

export interface MeasuredSwarm {
  /** Of an island, as its clock has it. */
  readonly stepSeconds: number;
  /** By what was known before each step. */
  readonly predictedSeconds: number;
  /** Of activations and their gradients, in a step of an island. */
  readonly bytesPerStep: number;
  /** Of these what went through the server, because no way of their own opened. */
  readonly bytesRelayed: number;
  /** Of all islands, with their meetings. */
  readonly tokensPerSecond: number;
  /** By the slowest island, whom the others wait for. */
  readonly predictedTokensPerSecond: number;
  /** From a round's last step to the next one's first, where there are islands. */
  readonly meetingSeconds: number;
}

const TEXT = 'Call me Ishmael. Some years ago, never mind how long precisely. '.repeat(400);
export const HOME_RUN = {
  data: { files: ['text.txt'], tokenizer: 'bytes' },
  init: { seed: 1 },
  // No part of the state is anywhere but where it is used: only the stream goes over the lines.
  state: { replicas: 0 },
  checkpoint: { everySteps: 1_000 },
};
export const HOME_TRAIN = { steps: 9_600, optimizer: benchOptimizer() };

export const measuredSwarm = (name: string, swarm: HomeSwarm): Promise<MeasuredSwarm> =>
  inBenchFolder(name, (folder) => measured(swarm, folder));

async function measured(swarm: HomeSwarm, { path: folder, unlessStopped }: BenchFolder): Promise<MeasuredSwarm> {
  const { line, nats, hasTurn, donors: places, microBatches, stages, islands: count } = swarm;
  const innerSteps = Math.min(MOST_INNER_STEPS, swarm.steps);
  const islands = count > 1 ? { islands: { count, innerSteps, exchange: 'f32' } } : {};
  const train = { ...swarm.run.train, ...islands };
  writeFileSync(join(folder, 'text.txt'), TEXT);
  writeFileSync(join(folder, 'run.json'), JSON.stringify({ ...swarm.run, train }));
  const data = need(await openDataDirectory(join(folder, 'data'), false), failed);
  const donors: HeadlessDonor[] = [];
  const log = terminalLog('warn');
  try {
    const runName = need(await addRun(data, join(folder, 'run.json')), failed);
    const server = need(
      await createServer({
        ...{ data, runName, host: '127.0.0.1', port: 0, pages: PAGES_FOLDER, log },
        ...{ expectedDonors: places.length, microBatches, ...(stages === undefined ? {} : { stages }) },
        iceServers: [hasTurn ? turnServerOf(nats.length) : STUN_SERVER],
      }),
      failed,
    );
    const homes = need(await openHomes(nats, line, Number(new URL(server.url).port), hasTurn), failed);
    try {
      const { pathname, search, hash } = new URL(server.ownDonorUrl);
      const url = homes.origin + pathname + search + hash;
      const limits = { ...NO_LIMITS, speed: Math.max(LEAST_SPEED, SPEED_OF_ALL / places.length) };
      for (const [number, home] of places.entries()) {
        const opening = openHeadlessDonor(url, number, log, { program: homes.browserIn(home), limits });
        donors.push(need(await unlessStopped(opening), failed));
      }
      return await unlessStopped(timed(swarm, server, data, count > 1 ? innerSteps : 1));
    } finally {
      await server.close();
      await closeAll(donors);
      await homes.close();
    }
  } finally {
    data.close();
  }
}

interface Timed {
  readonly plan: number;
  readonly seconds: number;
  /** What the next step of this plan is predicted to take, by what is known when this one is over. */
  readonly next: number;
  readonly bytes: number;
  readonly bytesRelayed: number;
}

/** From the beginning of one round to the beginning of another, so that as many meetings count as rounds. */
async function timed(
  { islands, steps, run: { train } }: HomeSwarm,
  { run }: Server,
  { store }: DataDirectory,
  innerSteps: number,
): Promise<MeasuredSwarm> {
  const perRound = islands * innerSteps;
  const warm = perRound * Math.ceil(WARM_UP_STEPS / innerSteps);
  const end = warm + perRound * Math.ceil(steps / innerSteps);
  const seen = new Set<number>();
  const all: Timed[] = [];
  /** When each step began, by how many were over when it was. */
  const began = new Map<number, number>();
  for (;;) {
    await run.until(({ committedSteps, phase }) => committedSteps > seen.size || phase === 'diverged');
    if (run.phase === 'diverged') throw failed(run.snapshot().sentence);
    const predicted = new Map<number, number>();
    for (const record of store.steps(run.name)) {
      if (seen.has(record.step)) continue;
      seen.add(record.step);
      const { plan, seconds, bytesDirect, bytesRelayed } = record;
      began.set(all.length, monotonicMs() - 1_000 * seconds);
      const next = predicted.get(plan) ?? stepPredicted(run, planOf(store, run.name, plan));
      predicted.set(plan, next);
      all.push({ plan, seconds, next, bytes: bytesDirect + bytesRelayed, bytesRelayed });
    }
    if (seen.size > end) break;
  }
  const elapsed = (got(began, end) - got(began, warm)) / 1_000;
  const done = all.slice(warm, end);
  const plans = [...new Set(done.map(({ plan }) => plan))];
  const predicted = plans.map((plan) => {
    const own = all
      .slice(0, end)
      .filter((one) => one.plan === plan)
      .slice(warm / islands - 1, -1);
    return own.map(({ next }) => next);
  });
  const slowest = Math.max(...predicted.map((own) => median(own) ?? Number.NaN));
  const groups = plans.map((plan) => planOf(store, run.name, plan));
  const meeting = islands === 1 ? 0 : (predictedMeetingSeconds(run.replanner, groups) ?? Number.NaN);
  const middle = (of: (one: Timed) => number): number => median(done.map(of)) ?? Number.NaN;
  const stepSeconds = middle(({ seconds }) => seconds);
  const tokens = Number(train.globalBatchSize) * Number(train.sequenceLength);
  const stepsSeconds = totalOf(done, ({ seconds }) => seconds) / islands;
  return {
    ...{ stepSeconds, predictedSeconds: median(predicted.flat()) ?? Number.NaN },
    ...{ bytesPerStep: middle(({ bytes }) => bytes), bytesRelayed: middle((one) => one.bytesRelayed) },
    tokensPerSecond: (done.length * tokens) / elapsed,
    predictedTokensPerSecond: (perRound * tokens) / (innerSteps * slowest + meeting),
    meetingSeconds: islands === 1 ? 0 : (elapsed - stepsSeconds) / (done.length / perRound),
  };
}

const stepPredicted = (run: Server['run'], plan: Plan): number => predictedSeconds(run.replanner, plan) ?? Number.NaN;

/** The plan of an epoch. */
const planOf = (store: DataDirectory['store'], name: string, epoch: number): Plan =>
  JSON.parse(store.epoch(name, epoch)?.plan ?? '') as Plan; // the store's own words
