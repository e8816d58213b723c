/** The first examples of a run's data as the model sees them, before they are packed; of text, its first windows. */
import { at, type Result, success } from '../../swarm/base.ts';
import type { RunFile } from '../../swarm/run/runFile.ts';
import type { LineExample, ReadsExamples } from './examples.ts';
import { readFiles, type TokenJob, textIds, tooLittle, withTokenizer } from './tokens.ts';

/** `file`: as the run file has it. */
export interface FirstExample extends Omit<LineExample, 'line' | 'places' | 'answer'> {
  readonly file: string;
  /** Null: a window of text. */
  readonly line: number | null;
  /** Where the tokens stand in the text: code points from and to, token by token; null: nobody asked. */
  readonly places: Int32Array | null;
}

/** `date`: what a chat template that asks is told. */
export const firstExamples = (
  run: RunFile,
  runPath: string,
  count: number,
  date: Date,
): Promise<Result<readonly FirstExample[]>> =>
  withTokenizer(run, runPath, date, (job) =>
    job.examples === null ? firstWindows(job, count) : firstLines(job, job.examples, count),
  );

async function firstLines(
  job: TokenJob,
  examples: ReadsExamples,
  count: number,
): Promise<Result<readonly FirstExample[]>> {
  const found: FirstExample[] = [];
  const read = await readFiles(job, 'data.files', job.run.data.files, async (path, file) => {
    for await (const example of examples(path, () => {})) {
      found.push({ file, ...example });
      if (found.length === count) return 'enough';
    }
    return 'more';
  });
  if (!read.ok) return read;
  return found.length > 0 ? success(found) : tooLittle(job, 'data.files', 0);
}

async function firstWindows(job: TokenJob, count: number): Promise<Result<readonly FirstExample[]>> {
  const { sequenceLength } = job.run.train;
  const wanted = count * sequenceLength + 1;
  const ids: number[] = [];
  /** Files, and which token is the first behind each. */
  const files: { readonly file: string; readonly until: number }[] = [];
  const read = await readFiles(job, 'data.files', job.run.data.files, async (path, file) => {
    for await (const some of textIds(job, path, () => {})) {
      for (const id of some.slice(0, wanted - ids.length)) ids.push(id);
      if (ids.length === wanted) break;
    }
    files.push({ file, until: ids.length });
    return ids.length === wanted ? 'enough' : 'more';
  });
  if (!read.ok) return read;
  const windows = Math.floor((ids.length - 1) / sequenceLength);
  if (windows < 1) return tooLittle(job, 'data.files', ids.length);
  const found: FirstExample[] = [];
  for (let window = 0; window < windows; window++) {
    const from = window * sequenceLength;
    const own = ids.slice(from, from + sequenceLength + 1);
    found.push({
      file: files.find(({ until }) => until > from)?.file ?? at(job.run.data.files, 0),
      line: null,
      text: await job.tokenizer.decode(own),
      ids: Int32Array.from(own),
      counted: own.slice(1).map((_, index) => index + 1),
      places: null,
    });
  }
  return success(found);
}
