/** What a run trains on, told before anything is stored: how many examples, windows and tokens there are, and what is left out. */
import { type Result, success } from '../../swarm/base.ts';
import type { ExampleTotals } from '../../swarm/run/draftExamples.ts';
import { modelOf } from '../../swarm/run/runFile.ts';
import type { LineExample, ReadsExamples } from './examples.ts';
import { type Fate, fateOf, windowPacker } from './exampleWindows.ts';
import { readFiles, type TokenJob, tooLittle } from './tokens.ts';

/** Of the lines that something becomes of. */
const MOST_NAMED = 20;

interface ExampleSurvey {
  readonly trained: ExampleTotals;
  /** Null: the run has no held-out files. */
  readonly heldOut: ExampleTotals | null;
  readonly first: readonly LineExample[];
}

/** Given up once `signal` is aborted: nobody waits for the answer then. */
export async function surveyExamples(
  job: TokenJob,
  examples: ReadsExamples,
  count: number,
  signal: AbortSignal,
): Promise<Result<ExampleSurvey>> {
  const first: LineExample[] = [];
  const trained = await totalsOf(job, 'data.files', examples, signal, (example) => {
    if (first.length < count) first.push(example);
  });
  if (!trained.ok) return trained;
  if (job.run.evaluation === null) return success({ trained: trained.value, heldOut: null, first });
  const heldOut = await totalsOf(job, 'evaluation.files', examples, signal, () => {});
  return heldOut.ok ? success({ trained: trained.value, heldOut: heldOut.value, first }) : heldOut;
}

async function totalsOf(
  job: TokenJob,
  field: 'data.files' | 'evaluation.files',
  examples: ReadsExamples,
  signal: AbortSignal,
  see: (example: LineExample) => void,
): Promise<Result<ExampleTotals>> {
  const { run } = job;
  const { sequenceLength } = run.train;
  const { vocabulary } = modelOf(run);
  const packer = windowPacker({ sequenceLength, vocabulary, packing: run.data.packing ?? true });
  const lines: Record<Fate, number[]> = { whole: [], cut: [], late: [], empty: [] };
  let [windows, tokens, counted] = [0, 0, 0];
  const take = (full: ReturnType<typeof packer.end>): void => {
    windows += full.length;
    for (const window of full) counted += window.counted;
  };
  const files = field === 'data.files' ? run.data.files : (run.evaluation?.files ?? []);
  const read = await readFiles(job, field, files, async (path) => {
    for await (const example of examples(path, () => {})) {
      if (signal.aborted) return 'enough';
      see(example);
      const fate = fateOf(example, sequenceLength);
      lines[fate].push(example.line);
      if (fate === 'whole' || fate === 'cut') tokens += Math.min(example.ids.length, sequenceLength + 1);
      take(packer.add(example));
    }
    return 'more';
  });
  if (!read.ok) return read;
  take(packer.end());
  if (windows === 0) return tooLittle(job, field, 0);
  const few = (of: readonly number[]) => ({ count: of.length, lines: of.slice(0, MOST_NAMED) });
  return success({
    ...{ examples: lines.whole.length + lines.cut.length, windows, tokens, counted },
    lines: { cut: few(lines.cut), late: few(lines.late), empty: few(lines.empty) },
  });
}
