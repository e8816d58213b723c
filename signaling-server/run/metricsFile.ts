/**
 * The metrics file: one line a committed step, each step once, whatever happened. A line is appended when everything
 * about its step is known; when a run goes back, the whole file is written anew beside the old one and takes its place.
 */
import { appendFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { CommitRecord } from '../../swarm/coordinator/events.ts';
import { makeFolder } from '../files/makeFolder.ts';
import type { RunOptions } from './runOptions.ts';

/** What is committed, and after how many committed steps a held-out loss is due. */
interface MetricsSource {
  /** Committed steps from `from` on, in order. */
  steps(from: number): readonly CommitRecord[];
  /** Held-out loss by committed steps: that of 3 belongs to the line of step 2. */
  evaluations(): ReadonlyMap<number, number>;
  isEvaluationDue(committedSteps: number): boolean;
}

export class MetricsFile {
  readonly #path: string;
  readonly #source: MetricsSource;
  /** The first step whose line is not written yet. */
  #next = 0;
  /** What was written last may be there in part. */
  #isTorn = false;

  /** Replaces the file: the steps that stand committed come first. */
  constructor(path: string, source: MetricsSource) {
    this.#path = resolve(path);
    this.#source = source;
    makeFolder(dirname(this.#path));
    this.rewrite();
  }

  /** Appends the lines that have become complete; `all`: also the last one, should its held-out loss never come. */
  append(all = false): void {
    if (this.#isTorn) {
      this.rewrite(all);
      return;
    }
    this.#isTorn = true;
    const lines = this.#lines(all);
    if (lines.length > 0) appendFileSync(this.#path, lines.join(''));
    this.#isTorn = false;
  }

  rewrite(all = false): void {
    this.#isTorn = true;
    this.#next = 0;
    const fresh = `${this.#path}.new`;
    writeFileSync(fresh, this.#lines(all).join(''));
    renameSync(fresh, this.#path);
    this.#isTorn = false;
  }

  #lines(all: boolean): string[] {
    const records = this.#source.steps(this.#next);
    const evaluations = this.#source.evaluations();
    const complete = records.filter(
      ({ step }) => all || !this.#source.isEvaluationDue(step + 1) || evaluations.has(step + 1),
    );
    // Only the newest step can wait for its held-out loss: the next step starts after it.
    this.#next += complete.length;
    return complete.map((record) => {
      const evaluationLoss = evaluations.get(record.step + 1);
      return `${JSON.stringify(evaluationLoss === undefined ? record : { ...record, evaluationLoss })}\n`;
    });
  }
}

/** The file that a run was asked to write, from what its store has. */
export function metricsFileOf(
  { metricsPath, store, name }: RunOptions,
  isEvaluationDue: MetricsSource['isEvaluationDue'],
): MetricsFile | null {
  if (metricsPath === undefined) return null;
  const steps = (from: number): CommitRecord[] => store.steps(name, from);
  return new MetricsFile(metricsPath, { steps, evaluations: () => store.evaluations(name), isEvaluationDue });
}
