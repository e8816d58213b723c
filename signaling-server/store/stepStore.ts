/** Committed steps, and what was made of each: credit, held-out losses, plans. */
import type { PeerId } from '../../swarm/base.ts';
import type { CommitRecord } from '../../swarm/coordinator/events.ts';
import type { LedgerEntry } from '../../swarm/plan/ledger.ts';
import type { Queries, Row, Value } from './queries.ts';

/** How many plans are kept: more than the newest steps have, whose spans are shown beside their plans. */
const EPOCHS_KEPT = 512;

const STEP_COLUMNS = [
  'step',
  'loss',
  'gradientNorm',
  'learningRate',
  'tokens',
  'seconds',
  'donors',
  'stages',
  'microBatches',
  'plan',
  'bytesDirect',
  'bytesRelayed',
] as const satisfies readonly (keyof CommitRecord)[];
/** Null where rounds follow from the run file, and wait for their meetings; the share, where a run has a number of steps. */
const TURN_COLUMNS = [
  'number',
  'island',
  'round',
  'innerStep',
  'tookIn',
  'share',
] as const satisfies readonly (keyof CommitRecord)[];
const RECORD_COLUMNS = [...STEP_COLUMNS, ...TURN_COLUMNS];

const recordOf = (row: Row): CommitRecord =>
  Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null)) as unknown as CommitRecord;

/** Committed steps that fit a condition, in order. */
const recordsIn = ({ many }: Queries, condition: string, ...values: Value[]): CommitRecord[] =>
  many(`SELECT ${RECORD_COLUMNS.join(', ')} FROM step WHERE ${condition} ORDER BY step`, ...values).map(recordOf);

/** They never were, nor what they earned. */
function undoSteps({ run }: Queries, name: string, which: 'step = ?' | 'step >= ?', step: number): void {
  const undone = `SELECT donor, sum(tokens) AS tokens, count(*) AS steps FROM ledger WHERE run = ? AND ${which} GROUP BY donor`;
  run(
    `UPDATE credit SET tokens = credit.tokens - undone.tokens, steps = credit.steps - undone.steps FROM (${undone}) AS undone WHERE credit.run = ? AND credit.donor = undone.donor`,
    ...[name, step, name],
  );
  run('DELETE FROM credit WHERE run = ? AND steps = 0', name);
  for (const table of ['step', 'ledger', 'trace']) run(`DELETE FROM ${table} WHERE run = ? AND ${which}`, name, step);
}

const commits = (queries: Queries) => {
  const { run, atomically } = queries;
  return {
    commitStep: (name: string, record: CommitRecord, ledger: readonly LedgerEntry[], applied?: string) =>
      atomically(() => {
        const places = RECORD_COLUMNS.map(() => '?').join(', ');
        const values = RECORD_COLUMNS.map((column) => record[column] ?? null);
        run(
          `INSERT INTO step (run, ${RECORD_COLUMNS.join(', ')}, applied) VALUES (?, ${places}, ?)`,
          ...[name, ...values, applied ?? null],
        );
        if (record.share !== undefined)
          run('INSERT OR REPLACE INTO givenOut VALUES (?, ?, ?)', name, record.step, record.share);
        for (const { peer, tokens } of ledger) {
          run('INSERT INTO ledger VALUES (?, ?, ?, ?)', name, record.step, peer, tokens);
          const added = 'ON CONFLICT DO UPDATE SET tokens = tokens + excluded.tokens, steps = steps + 1';
          run(`INSERT INTO credit VALUES (?, ?, ?, 1) ${added}`, name, peer, tokens);
        }
      }),
    /** So many steps stand for all groups since they met; what the meeting sent counts with the round's last step. */
    addMeeting: (name: string, committedSteps: number, bytesDirect: number, bytesRelayed: number) =>
      atomically(() => {
        run(
          'UPDATE step SET bytesDirect = bytesDirect + ?, bytesRelayed = bytesRelayed + ? WHERE run = ? AND step = ?',
          ...[bytesDirect, bytesRelayed, name, committedSteps - 1],
        );
        run('UPDATE run SET metSteps = ? WHERE name = ?', committedSteps, name);
      }),
    /** Of the steps from `from` on those of this island never were; the others are counted on in their order. */
    endIsland: (name: string, island: number, from: number) =>
      atomically(() => {
        let next = from;
        for (const { step, island: own } of recordsIn(queries, 'run = ? AND step >= ?', name, from)) {
          if (own === island) undoSteps(queries, name, 'step = ?', step);
          else if (step > next)
            for (const table of ['step', 'ledger', 'trace'])
              run(`UPDATE ${table} SET step = ? WHERE run = ? AND step = ?`, next, name, step);
          if (own !== island) next++;
        }
      }),
    /**
     * Steps from `toStep` on, and all that was made from them, never were: another generation begins. Checkpoints that are
     * to be kept become former ones.
     */
    rollBack: (name: string, toStep: number) =>
      atomically(() => {
        run(
          'INSERT INTO formerCheckpoint SELECT run, generation, committedSteps, manifest FROM checkpoint JOIN run ON name = run WHERE run = ? AND committedSteps > ? AND kept = 1',
          ...[name, toStep],
        );
        run('UPDATE run SET generation = generation + 1, metSteps = min(metSteps, ?) WHERE name = ?', toStep, name);
        undoSteps(queries, name, 'step >= ?', toStep);
        for (const table of ['evaluation', 'rightAnswers', 'checkpoint', 'sample'])
          run(`DELETE FROM ${table} WHERE run = ? AND committedSteps > ?`, name, toStep);
      }),
  };
};

const records = (queries: Queries) => {
  const { one, many } = queries;
  return {
    /** Committed steps from `from` on, in order. */
    steps: (name: string, from = 0) => recordsIn(queries, 'run = ? AND step >= ?', name, from),
    /** At which share of a run's time the steps from `from` on were given out, also those that were undone since. */
    shares: (name: string, from: number) =>
      many<{ step: number; share: number }>(
        'SELECT step, share FROM givenOut WHERE run = ? AND step >= ? ORDER BY step',
        ...[name, from],
      ),
    /** At most about `count` committed steps before `until`, evenly spread. */
    stepsSpread: (name: string, until: number, count: number) => {
      const every = Math.max(1, Math.ceil(until / count));
      // Each is looked up by its number: to go through all of them takes longer, the longer the run.
      const spread =
        'WITH RECURSIVE spread(at) AS (SELECT 0 UNION ALL SELECT at + ? FROM spread WHERE at + ? < ?) SELECT at FROM spread';
      return until > 0 ? recordsIn(queries, `run = ? AND step IN (${spread})`, name, every, every, until) : [];
    },
    // To the newest checkpoint they are numbered without a gap: to count them all takes longer, the longer the run.
    committedSteps: (name: string) => {
      const saved = '(SELECT coalesce(max(committedSteps), 0) FROM checkpoint WHERE run = ?)';
      const beyond = `(SELECT count(*) FROM step WHERE run = ? AND step >= ${saved})`;
      return one<{ steps: number }>(`SELECT ${saved} + ${beyond} AS steps`, name, name, name)?.steps ?? 0;
    },
    /** What this step left, as JSON; null: it is not committed, or an older version of shoal committed it. */
    applied: (name: string, step: number) =>
      one<{ applied: string | null }>('SELECT applied FROM step WHERE run = ? AND step = ?', name, step)?.applied ??
      null,
  };
};

const evaluations = ({ many, run }: Queries) => {
  const lossesIn = (sql: string, ...values: Value[]) =>
    new Map(
      many<{ committedSteps: number; loss: number }>(sql, ...values).map(({ committedSteps, loss }) => [
        committedSteps,
        loss,
      ]),
    );
  return {
    saveEvaluation: (name: string, committedSteps: number, loss: number) =>
      run('INSERT OR REPLACE INTO evaluation VALUES (?, ?, ?)', name, committedSteps, loss),
    /** Held-out loss by committed steps. */
    evaluations: (name: string) =>
      lossesIn('SELECT committedSteps, loss FROM evaluation WHERE run = ? ORDER BY committedSteps', name),
    /** The newest so many. */
    newestEvaluations: (name: string, count: number) => {
      const newest = 'SELECT committedSteps, loss FROM evaluation WHERE run = ? ORDER BY committedSteps DESC LIMIT ?';
      return lossesIn(`SELECT * FROM (${newest}) ORDER BY committedSteps`, name, count);
    },
  };
};

/** What came of the questions of an evaluation. */
export interface RightAnswers {
  /** Of the answers, those that are letter by letter what was expected. */
  readonly share: number;
  /** The fewest and the most steps after which weights were that answered. */
  readonly fromStep: number;
  readonly toStep: number;
}

const ANSWERED = 'SELECT committedSteps, share, fromStep, toStep FROM rightAnswers WHERE run = ? AND share IS NOT NULL';

const rightAnswers = ({ one, many, run }: Queries) => ({
  /** `answers` null: nobody could be asked. */
  saveRightAnswers: (name: string, committedSteps: number, answers: RightAnswers | null) => {
    const { share = null, fromStep = null, toStep = null } = answers ?? {};
    run('INSERT OR REPLACE INTO rightAnswers VALUES (?, ?, ?, ?, ?)', name, committedSteps, share, fromStep, toStep);
  },
  /** Whether it is over that the questions of this evaluation were asked. */
  isAsked: (name: string, committedSteps: number) =>
    one('SELECT 1 FROM rightAnswers WHERE run = ? AND committedSteps = ?', name, committedSteps) !== null,
  /** By the committed steps of the evaluations, in order. */
  rightAnswers: (name: string) =>
    new Map(
      many<RightAnswers & { committedSteps: number }>(`${ANSWERED} ORDER BY committedSteps`, name).map(
        ({ committedSteps, ...answers }): [number, RightAnswers] => [committedSteps, answers],
      ),
    ),
  newestRightAnswers: (name: string) => one<RightAnswers>(`${ANSWERED} ORDER BY committedSteps DESC LIMIT 1`, name),
});

const credit = ({ one, many, run, atomically }: Queries) => ({
  /** This donor earned nothing. */
  voidCredit: (name: string, donor: PeerId) =>
    atomically(() => {
      for (const table of ['credit', 'ledger']) run(`DELETE FROM ${table} WHERE run = ? AND donor = ?`, name, donor);
    }),
  /** What each donor carried in all. */
  ledger: (name: string) =>
    many<LedgerEntry>('SELECT donor AS peer, tokens FROM credit WHERE run = ? ORDER BY donor', name),
  /** What each donor earned with the steps from `from` on. */
  ledgerFrom: (name: string, from: number) =>
    many<LedgerEntry>(
      'SELECT donor AS peer, sum(tokens) AS tokens FROM ledger WHERE run = ? AND step >= ? GROUP BY donor',
      ...[name, from],
    ),
  /** Steps of the run that this donor has a part in. */
  stepsOf: (name: string, donor: PeerId) =>
    one<{ steps: number }>('SELECT steps FROM credit WHERE run = ? AND donor = ?', name, donor)?.steps ?? 0,
});

const epochs = ({ one, many, run, atomically }: Queries) => ({
  saveEpoch: (name: string, epoch: number, generation: number, plan: string, reason: string) =>
    atomically(() => {
      run('INSERT OR REPLACE INTO epoch VALUES (?, ?, ?, ?, ?)', name, epoch, generation, plan, reason);
      run('DELETE FROM epoch WHERE run = ? AND epoch <= ?', name, epoch - EPOCHS_KEPT);
      run('UPDATE run SET epoch = max(epoch, ?), generation = ? WHERE name = ?', epoch, generation, name);
    }),
  /** The plan of an epoch as JSON, and why it was made. */
  epoch: (name: string, epoch: number) =>
    one<{ plan: string; reason: string }>('SELECT plan, reason FROM epoch WHERE run = ? AND epoch = ?', name, epoch),
  /** Plans of this generation from an epoch on, as JSON, in order. */
  plansFrom: (name: string, generation: number, epoch: number) =>
    many<{ readonly epoch: number; readonly plan: string }>(
      'SELECT epoch, plan FROM epoch WHERE run = ? AND generation = ? AND epoch >= ? ORDER BY epoch',
      ...[name, generation, epoch],
    ),
});

export const stepStore = (queries: Queries) => ({
  ...commits(queries),
  ...records(queries),
  ...evaluations(queries),
  ...rightAnswers(queries),
  ...credit(queries),
  ...epochs(queries),
});
