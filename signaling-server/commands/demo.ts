/** `npm run demo`: the bundled run, trained by three headless donors, from nothing to text in a few minutes. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import { invariant, success } from '../../swarm/base.ts';
import { WORK_FOLDER } from '../files/projectRoot.ts';
import { onInterrupt } from '../headless/interrupt.ts';
import { trainingProgress } from '../headless/progress.ts';
import { trainHeadless } from '../headless/trainHeadless.ts';
import { openTrainingServer } from '../headless/trainingServer.ts';
import { terminalLog } from '../monitoring/log.ts';
import { wholeWeights } from '../store/baseStore.ts';
import { parseManifest } from '../store/checkpointState.ts';
import { addRun, type DataDirectory, whereKept } from '../store/dataDirectory.ts';
import { exportRun } from '../store/exportRun.ts';
import { storedDocument } from '../store/runDocument.ts';
import { DEMO_RUN, prepareBundledRun } from '../texts/corpus.ts';
import { sampleText } from '../texts/sampleText.ts';
import { failed, need } from './failure.ts';
import { openData } from './openData.ts';

const DONORS = 3;
const PROMPT = 'The whale';
const SAMPLE = { prompt: PROMPT, tokens: 160, temperature: 0.7, seed: 1 };

const say = (line: string): void => void process.stdout.write(`${line}\n`);

export function addDemoCommand(program: Command): void {
  program
    .command('demo')
    .description(`train the bundled run with ${DONORS} headless donors, then write text with it`)
    .action(demo);
}

async function demo(): Promise<void> {
  const data = await openData(join(WORK_FOLDER, 'demo'));
  try {
    const runName = need(await whereKept(data, async () => success(await chooseRun(data))), failed);
    if (!isFinished(data, runName)) await train(data, runName);
    await conclude(data, runName);
  } finally {
    data.close();
  }
}

/** The run of the last demo, or a new one beside it. Without a terminal: what is unfinished goes on, else a new one. */
async function chooseRun(data: DataDirectory): Promise<string> {
  const last = data.store.activeRun();
  if (last !== null) {
    const finished = isFinished(data, last.name);
    const state = finished ? 'is finished' : `stands after ${data.store.committedSteps(last.name)} steps`;
    const isTerminal = process.stdin.isTTY && process.stdout.isTTY;
    const goesOn = isTerminal ? await askToGoOn(`The run ${last.name} ${state}.`, finished) : !finished;
    if (goesOn) return last.name;
  }
  say('The text is Moby Dick, fetched once.');
  const file = need(await prepareBundledRun(DEMO_RUN, join(WORK_FOLDER, 'corpus')), failed);
  const known = new Set(data.store.runNames());
  for (let number = 1; ; number++) {
    const name = number === 1 ? 'moby-dick' : `moby-dick-${number}`;
    if (!known.has(name)) return need(await addRun(data, file, { name }), failed);
  }
}

/** Its last step is committed, saved, and its held-out loss is known. */
function isFinished({ store }: DataDirectory, runName: string): boolean {
  const { steps } = storedDocument(store, runName).file.train;
  return store.newestCheckpoint(runName)?.committedSteps === steps && store.evaluations(runName).has(steps);
}

async function askToGoOn(state: string, finished: boolean): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const goOn = finished ? 'show its result again' : 'go on with it';
  const answer = await terminal.question(
    `${state} Type g to ${goOn}, n to start anew beside it [${finished ? 'n' : 'g'}]: `,
  );
  terminal.close();
  const choice = answer.trim().toLowerCase();
  return choice === '' ? !finished : choice.startsWith('g');
}

/** To its end. */
async function train(data: DataDirectory, runName: string): Promise<void> {
  const interrupt = onInterrupt();
  const progress = trainingProgress(process.stderr);
  const log = terminalLog('warn');
  const options = { data, runName, log, expectedDonors: DONORS };
  const server = need(await openTrainingServer(options), failed);
  say(`dashboard: ${server.url}/operator#token=${server.operatorToken}`);
  say(
    `Training ${runName} with ${DONORS} headless donors. Ctrl-C stops between two steps; the next start goes on from there.`,
  );
  const trained = await trainHeadless({
    server,
    donors: DONORS,
    log,
    interrupt: interrupt.signal,
    onOpened: (opened) => progress.note(`donor ${opened} of ${DONORS} takes part`),
    onChange: ({ snapshot }) => progress.show(snapshot),
  });
  progress.end();
  interrupt.release();
  const { outcome, committedSteps } = need(trained, failed);
  if (outcome === 'finished') return;
  throw failed(`Stopped after ${committedSteps} steps; npm run demo goes on from there.`);
}

/** Says the last three lines, which scripts read. */
async function conclude(data: DataDirectory, runName: string): Promise<void> {
  const { store, blobs, directory } = data;
  const { file } = storedDocument(store, runName);
  const folder = join(directory, 'exports', runName);
  if (!existsSync(folder)) need(await exportRun(data, runName, folder), failed);
  const checkpoint = store.newestCheckpoint(runName);
  invariant(checkpoint, `the finished run ${runName} has a checkpoint`);
  const { model, read } = wholeWeights(blobs, storedDocument(store, runName), parseManifest(checkpoint.manifest));
  const text = await sampleText(model, read, SAMPLE);
  const evaluations = store.evaluations(runName);
  const loss = (committedSteps: number): string => evaluations.get(committedSteps)?.toFixed(3) ?? 'unknown';
  // Beside what scripts read, and before it: its three lines are the last.
  process.stderr.write(
    `Next: npm start, and open the donor page in a browser. Sample files for every command: docs/examples/\n`,
  );
  say(`held-out loss: ${loss(0)} -> ${loss(file.train.steps)} nats a byte`);
  say(`sample: ${oneLine(PROMPT + text)}`);
  say(`export: ${folder}`);
}

/** Line breaks become spaces; bytes that are no text become the replacement character. */
const oneLine = (text: string): string => text.replaceAll(/[\s\p{Cc}]+/gu, ' ').trim();
