/** `shoal export`: the newest checkpoint of a run as a Hugging Face folder. */
import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import { given } from '../../swarm/base.ts';
import { exportRun } from '../store/exportRun.ts';
import { exportTarget } from '../weights/exportFolder.ts';
import { badInput, mustHave, need } from './failure.ts';
import { openData } from './openData.ts';
import { tryIt } from './options.ts';

interface ExportOptions {
  readonly dataDir?: string;
  readonly run?: string;
  readonly out?: string;
  readonly merged?: boolean;
  readonly json?: boolean;
}

const EXAMPLE = 'export --data-dir .shoal/example --out .shoal/model';

export function addExportCommand(program: Command): void {
  program
    .command('export')
    .description('write the newest checkpoint of a run as a folder that transformers loads')
    .option('--data-dir <dir>', 'where the run is kept')
    .option('--run <name>', 'which run (default: the one that was active last)')
    .option('--out <dir>', 'the folder to write: new, or empty')
    .option('--merged', 'of a run with an adapter: the whole model, the adapter added to its base')
    .option('--json', 'one JSON document')
    .addHelpText('after', tryIt(EXAMPLE, 'swarm'))
    .action(exportCommand);
}

async function exportCommand(options: ExportOptions): Promise<void> {
  const dataDir = mustHave('--data-dir <dir>', options.dataDir, EXAMPLE);
  const out = mustHave('--out <dir>', options.out, EXAMPLE);
  if (!existsSync(dataDir)) throw badInput(`--data-dir ${dataDir}: there is no such folder; for example: ${EXAMPLE}`);
  need(await exportTarget(out), (reason) => badInput(`--out ${reason}; for example: ${EXAMPLE}`));
  const data = await openData(dataDir);
  try {
    const name = options.run ?? data.store.activeRun()?.name ?? data.store.runNames()[0];
    if (name === undefined)
      throw badInput(
        `--data-dir ${dataDir} has no run yet: train one first (swarm --help), then for example: ${EXAMPLE}`,
      );
    const folder = need(await exportRun(data, name, out, given({ isMerged: options.merged })), badInput);
    const step = data.store.newestCheckpoint(name)?.committedSteps;
    process.stdout.write(
      options.json ? `${JSON.stringify({ run: name, step, folder })}\n` : `${name} after ${step} steps: ${folder}\n`,
    );
  } finally {
    data.close();
  }
}
