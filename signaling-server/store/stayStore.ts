/** How long donors stayed, the newest visits of all runs. Of whom is not kept. */
import type { Stay } from '../../swarm/autoplan/sessions.ts';
import type { Queries } from './queries.ts';

export const STAYS_KEPT = 500;

interface Row {
  readonly startedAtMs: number;
  readonly seconds: number;
  readonly hasEnded: number;
  readonly isNew: number;
}

/** Of the day on this server's clock. */
export const hourOf = (atMs: number): number => {
  const at = new Date(atMs);
  return at.getHours() + at.getMinutes() / 60;
};

export const stayStore = ({ many, run, atomically }: Queries) => ({
  saveStay: (startedAtMs: number, { seconds, hasEnded, isNew }: Omit<Stay, 'hour'>) =>
    atomically(() => {
      run(
        'INSERT INTO stay (startedAtMs, seconds, hasEnded, isNew) VALUES (?, ?, ?, ?)',
        ...[startedAtMs, seconds, Number(hasEnded), Number(isNew)],
      );
      run(`DELETE FROM stay WHERE id <= (SELECT max(id) FROM stay) - ${STAYS_KEPT}`);
    }),
  stays: (): Stay[] =>
    many<Row>('SELECT startedAtMs, seconds, hasEnded, isNew FROM stay ORDER BY id').map(
      ({ startedAtMs, seconds, hasEnded, isNew }) => ({
        ...{ seconds, hour: hourOf(startedAtMs) },
        ...{ hasEnded: hasEnded === 1, isNew: isNew === 1 },
      }),
    ),
});
