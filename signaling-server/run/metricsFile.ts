/**
 * The metrics file: one line a committed step, each step once, whatever happened. A line is appended when everything
 * about its step is known, with islands when its round is committed, in the order of the steps' numbers; when a run goes
 * back, or it is known how many answers of an earlier step were right, the whole file is written anew beside the old one and
 * takes its place.
 */
import { appendFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { CommitRecord } from '../../swarm/coordinator/events.ts';
import { isMeeting, isRecorded, turnAt } from '../../swarm/islands/rounds.ts';
import type { Train } from '../../swarm/run/runFile.ts';
import { makeFolder } from '../files/makeFolder.ts';
import { storageProblem } from '../files/storageProblem.ts';
import type { RightAnswers } from '../store/stepStore.ts';
import type { RunOptions } from './runOptions.ts';

/** What is committed, and after how many committed steps a held-out loss is due. */
interface MetricsSource {
  readonly train: Pick<Train, 'steps' | 'islands'>;
  /** Committed steps from `from` on, in order. */
  steps(from: number): readonly CommitRecord[];
  /** Held-out loss by committed steps: that of 3 belongs to the line of step 2. */
  evaluations(): ReadonlyMap<number, number>;
  /** The same of the answers that were right then. */
  rightAnswers(): ReadonlyMap<number, RightAnswers>;
  isEvaluationDue(committedSteps: number): boolean;
}

export class MetricsFile {
  readonly #path: string;
  readonly #source: MetricsSource;
  /** So many committed steps have their lines. */
  #next = 0;
  /** Steps committed at the newest meeting of rounds that are recorded. */
  #met = 0;
  /** What was written last may be there in part. */
  #isTorn = false;

  /** Replaces the file: the steps that stand committed come first. */
  constructor(path: string, source: MetricsSource) {
    this.#path = resolve(path);
    this.#source = source;
    makeFolder(dirname(this.#path));
    try {
      this.rewrite();
    } catch (error) {
      if (storageProblem(error) === null) throw error; // else it is tried again with the next line
    }
  }

  /** Within a round of islands no line becomes complete, and none of it is read. */
  committed(step: number): void {
    if (isMeeting(this.#source.train, step + 1)) this.append();
  }

  /** All groups have met. */
  met(committedSteps: number): void {
    this.#met = committedSteps;
    this.append();
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
    const { train } = this.#source;
    const records = this.#source.steps(this.#next);
    const evaluations = this.#source.evaluations();
    const isLast = ({ step, round }: CommitRecord, place: number): boolean => {
      if (!isRecorded(train)) return isMeeting(train, step + 1);
      const next = records[place + 1];
      return step + 1 === this.#met || (next !== undefined && next.round !== round);
    };
    const isWhole = (record: CommitRecord, place: number): boolean => {
      const count = record.step + 1;
      return isLast(record, place) && (all || !this.#source.isEvaluationDue(count) || evaluations.has(count));
    };
    // Groups of donors commit the steps of a round in an order of their own: those before the first that is missing.
    const missing = records.findIndex(({ step }, place) => step !== this.#next + place);
    const inOrder = missing < 0 ? records : records.slice(0, missing);
    const whole = inOrder.slice(0, inOrder.findLastIndex(isWhole) + 1);
    this.#next += whole.length;
    const lines = whole.map((record) => numbered(train, record)).toSorted((a, b) => a.step - b.step);
    // What an evaluation at a meeting found stands in the line of its highest number.
    const rightAnswers = this.#source.rightAnswers();
    const found = new Map<number, ReturnType<typeof evaluated>>();
    for (const [place, record] of whole.entries()) {
      const loss = isLast(record, place) ? evaluations.get(record.step + 1) : undefined;
      if (loss !== undefined)
        found.set(highest(whole, place, isLast, train), evaluated(loss, rightAnswers.get(record.step + 1)));
    }
    return lines.map((line) => `${JSON.stringify({ ...line, ...found.get(line.step) })}\n`);
  }
}

/** What a line has of an evaluation; also the summary of a training. */
export const evaluated = (evaluationLoss: number, answers: RightAnswers | undefined) => ({
  evaluationLoss,
  ...(answers && {
    answersRight: answers.share,
    answersFromStep: answers.fromStep,
    answersToStep: answers.toStep,
  }),
});

/** The highest number of the round that ends at this place. */
function highest(
  records: readonly CommitRecord[],
  end: number,
  isLast: (record: CommitRecord, place: number) => boolean,
  train: MetricsSource['train'],
): number {
  const from = records.findLastIndex((record, place) => place < end && isLast(record, place)) + 1;
  return Math.max(...records.slice(from, end + 1).map((record) => numbered(train, record).step));
}

/** With its number in place of the count; with islands also whose it is. */
function numbered(train: MetricsSource['train'], record: CommitRecord): CommitRecord {
  if (record.number !== undefined) {
    const { number, ...line } = record;
    return { ...line, step: number };
  }
  const { number: step, island, round, innerStep } = turnAt(train, record.step);
  return { ...record, step, ...(train.islands ? { island, round, innerStep } : {}) };
}

/** The file that a run was asked to write, from what its store has. */
export function metricsFileOf(
  { metricsPath, store, name }: RunOptions,
  train: MetricsSource['train'],
  isEvaluationDue: MetricsSource['isEvaluationDue'],
): MetricsFile | null {
  if (metricsPath === undefined) return null;
  const steps = (from: number): CommitRecord[] => store.steps(name, from);
  return new MetricsFile(metricsPath, {
    ...{ train, steps, isEvaluationDue },
    evaluations: () => store.evaluations(name),
    rightAnswers: () => store.rightAnswers(name),
  });
}
