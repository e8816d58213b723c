/**
 * `shoal bench faults`: what each fault costs a swarm of four headless donors. Each is done to a fresh swarm of its own
 * during the same step of the same small run; the figures are those of `swarm --report`.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { seededRandom } from '../../swarm/base.ts';
import { failed, need } from '../commands/failure.ts';
import { parseChaosScript } from '../faults/chaosScript.ts';
import type { FaultCost } from '../faults/faultCosts.ts';
import { openServerProcess } from '../headless/serverProcesses.ts';
import { trainHeadless } from '../headless/trainHeadless.ts';
import { terminalLog } from '../monitoring/log.ts';
import { addRun, openDataDirectory } from '../store/dataDirectory.ts';
import { inBenchFolder } from './benchFolder.ts';

const STOPPED = 'stopped before all faults were measured';
const DONORS = 4;
/** Steps before it stand committed, and there is no checkpoint but the first: what is not in a replica is given up. */
const FAULT_STEP = 5;
const STEPS = 15;
const FAULTS: readonly { readonly script: string; readonly what: string }[] = [
  { script: `kill:1@${FAULT_STEP}`, what: "a donor's tab dies" },
  { script: `freeze:1@${FAULT_STEP}+2s`, what: 'a donor stands still for 2 s' },
  { script: `freeze:1@${FAULT_STEP}+10s`, what: 'a donor stands still for 10 s' },
  { script: `cut:1@${FAULT_STEP}+10s`, what: 'a donor is cut off for 10 s' },
  { script: `slow:1@${FAULT_STEP}*3`, what: 'a donor becomes three times as slow' },
  { script: `gpu-lost:1@${FAULT_STEP}`, what: 'a donor loses its GPU' },
  { script: `mute:1@${FAULT_STEP}`, what: 'a donor reports no more' },
  { script: `leave:1@${FAULT_STEP}`, what: 'a donor leaves by its button' },
  { script: `server-kill@${FAULT_STEP}`, what: 'the server is killed' },
];

/** A run of four layers on bytes that mean nothing. */
const RUN = {
  name: 'faults',
  model: { model_type: 'gpt2', n_layer: 4, n_head: 4, n_embd: 64, n_positions: 64, vocab_size: 256 },
  data: { files: ['bytes.bin'], tokenizer: 'bytes', order: 'sequential' },
  init: { seed: 1 },
  state: { replicas: 1 },
  train: {
    ...{ steps: STEPS, globalBatchSize: 8, sequenceLength: 32, gradientClipNorm: 1 },
    optimizer: { type: 'adamw', learningRate: 1e-3, betas: [0.9, 0.95], epsilon: 1e-8 },
  },
};
const BYTES = 16_384;

export function addFaultsBench(bench: Command): void {
  bench
    .command('faults')
    .description(`what each fault costs a swarm of ${DONORS} headless donors: about a minute each`)
    .option('--json', 'one JSON document on standard output')
    .action(benchFaults);
}

const benchFaults = ({ json }: { readonly json?: boolean }): Promise<void> =>
  inBenchFolder('faults', async ({ path, signal }) => {
    const random = seededRandom(1);
    writeFileSync(
      join(path, 'bytes.bin'),
      Uint8Array.from({ length: BYTES }, () => 256 * random()),
    );
    writeFileSync(join(path, 'run.json'), JSON.stringify(RUN));
    const faults: FaultCost[] = [];
    for (const [index, { script, what }] of FAULTS.entries()) {
      const cost = await costOf(script, join(path, 'run.json'), join(path, `data-${index}`), signal);
      faults.push(cost);
      if (json) process.stderr.write(`${line(what, cost)}\n`);
      else console.log(line(what, cost));
    }
    if (json) console.log(JSON.stringify({ donors: DONORS, faults }));
  });

async function costOf(script: string, runPath: string, directory: string, interrupt: AbortSignal): Promise<FaultCost> {
  const data = need(await openDataDirectory(directory, false), failed);
  const runName = need(await addRun(data, runPath), failed);
  data.close(); // the server process has it now
  // Ctrl-C reaches the server's process too: what it then fails with is no news.
  const whyNot = (reason: string) => failed(interrupt.aborted ? STOPPED : reason);
  const server = need(await openServerProcess({ runName, expectedDonors: DONORS }, directory), whyNot);
  const trained = await trainHeadless({
    server,
    donors: DONORS,
    log: terminalLog('warn'),
    interrupt,
    chaos: need(parseChaosScript(script, DONORS), failed),
  });
  const { outcome, faults } = need(trained, whyNot);
  if (outcome === 'interrupted') throw failed(STOPPED);
  const [cost] = faults;
  if (cost === undefined) throw failed(`${script} had no effect before the run ended`);
  return cost;
}

function line(what: string, { entry, detectedSeconds, resumedSeconds, stepsGivenUp, bytesMoved }: FaultCost): string {
  const seconds = (time: number | null): string => (time === null ? '–' : `${time.toFixed(1)} s`).padStart(7);
  const cost = [
    `known after ${seconds(detectedSeconds)}`,
    `next commit after ${seconds(resumedSeconds)}`,
    `${stepsGivenUp} steps given up`,
    `${(bytesMoved / 1e6).toFixed(1)} MB moved`,
  ];
  return `${entry.padEnd(14)} ${what.padEnd(37)} ${cost.join(', ')}`;
}
