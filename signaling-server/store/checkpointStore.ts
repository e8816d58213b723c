/** Checkpoints, former ones, and texts that were made with them. */
import type { Queries } from './queries.ts';

/** Checkpoints of which samples are kept. */
const SAMPLED_CHECKPOINTS = 200;

/** A kept one, of steps that a roll-back undid: nobody goes on from it. */
interface FormerCheckpoint {
  readonly committedSteps: number;
  /** Whose steps they were. */
  readonly generation: number;
}

interface Sample {
  readonly committedSteps: number;
  readonly prompt: string;
  readonly text: string;
}

const placeOf = (generation: number | undefined): string =>
  generation === undefined
    ? 'checkpoint WHERE run = ? AND committedSteps = ?'
    : 'formerCheckpoint WHERE run = ? AND committedSteps = ? AND generation = ?';
const numbersOf = (generation: number | undefined): number[] => (generation === undefined ? [] : [generation]);

/** `generation`, wherever one is given: the former checkpoint of it. */
export const checkpointStore = ({ one, many, run, atomically }: Queries) => ({
  saveCheckpoint: (name: string, committedSteps: number, manifest: string) =>
    run(
      'INSERT OR REPLACE INTO checkpoint (run, committedSteps, manifest) VALUES (?, ?, ?)',
      ...[name, committedSteps, manifest],
    ),
  /** Nothing happens where there is none. */
  deleteCheckpoint: (name: string, committedSteps: number, generation?: number) =>
    run(`DELETE FROM ${placeOf(generation)}`, name, committedSteps, ...numbersOf(generation)),
  checkpoint: (name: string, committedSteps: number, generation?: number) =>
    one<{ manifest: string }>(
      `SELECT manifest FROM ${placeOf(generation)}`,
      ...[name, committedSteps, ...numbersOf(generation)],
    )?.manifest ?? null,
  newestCheckpoint: (name: string) =>
    one<{ readonly committedSteps: number; readonly manifest: string }>(
      'SELECT committedSteps, manifest FROM checkpoint WHERE run = ? ORDER BY committedSteps DESC LIMIT 1',
      name,
    ),
  /** `kept`: not superseded by newer ones. */
  checkpoints: (name: string) =>
    many<{ committedSteps: number; kept: number }>(
      'SELECT committedSteps, kept FROM checkpoint WHERE run = ? ORDER BY committedSteps',
      name,
    ).map(({ committedSteps, kept }) => ({ committedSteps, kept: kept === 1 })),
  formerCheckpoints: (name: string) =>
    many<FormerCheckpoint>(
      'SELECT committedSteps, generation FROM formerCheckpoint WHERE run = ? ORDER BY generation, committedSteps',
      name,
    ),
  keepCheckpoint: (name: string, committedSteps: number, kept: boolean) =>
    run('UPDATE checkpoint SET kept = ? WHERE run = ? AND committedSteps = ?', kept ? 1 : 0, name, committedSteps),
  /** Every manifest of every run, and those that a copy would go on from: what the blob folder must keep. */
  manifests: () =>
    many<{ manifest: string }>('SELECT manifest FROM checkpoint UNION ALL SELECT manifest FROM formerCheckpoint').map(
      ({ manifest }) => manifest,
    ),
  /** Those of the initial weights are kept, and of the others the newest ones of so many checkpoints. */
  saveSample: (name: string, { committedSteps, prompt, text }: Sample) =>
    atomically(() => {
      run('INSERT OR REPLACE INTO sample VALUES (?, ?, ?, ?)', name, committedSteps, prompt, text);
      run(
        'DELETE FROM sample WHERE run = ? AND committedSteps > 0 AND committedSteps NOT IN (SELECT DISTINCT committedSteps FROM sample WHERE run = ? ORDER BY committedSteps DESC LIMIT ?)',
        ...[name, name, SAMPLED_CHECKPOINTS],
      );
    }),
  samples: (name: string) =>
    many<Sample>('SELECT committedSteps, prompt, text FROM sample WHERE run = ? ORDER BY committedSteps, prompt', name),
});
