/** What the store knows of the time of a run that has a budget of it, and how many steps a run has. */
import type { TimeUsed } from '../../swarm/coordinator/events.ts';
import type { Train } from '../../swarm/run/runFile.ts';
import type { Store } from './store.ts';

type Times = Pick<Store, 'shares' | 'steps' | 'committedSteps'>;

/** With the shares at which the steps from `from` on were given out, also of those that were undone since. Undefined: it has steps instead. */
export function timeUsed(
  store: Times,
  name: string,
  { budget }: Pick<Train, 'budget'>,
  from: number,
): TimeUsed | undefined {
  if (!budget) return undefined;
  const shares = store.shares(name, from);
  const [newest] = store.steps(name, store.committedSteps(name) - 1);
  const newestMs = newest ? 1_000 * ((newest.share ?? 0) * budget.seconds + newest.seconds) : 0;
  // Shares rise with the steps: a run may have more of them than a call takes arguments.
  const usedMs = Math.max(newestMs, 1_000 * (shares.at(-1)?.share ?? 0) * budget.seconds);
  return { usedMs, shares: Object.fromEntries(shares.map(({ step, share }) => [step, share])) };
}

/** Of a budget that is not used up: as many as there will be at the pace of the newest one. */
export function stepsOf(store: Times, name: string, train: Pick<Train, 'steps' | 'budget'>): number {
  const { budget, steps } = train;
  if (!budget) return steps;
  const committed = store.committedSteps(name);
  const { usedMs = 0 } = timeUsed(store, name, train, committed) ?? {};
  const leftMs = 1_000 * budget.seconds - usedMs;
  const [newest] = store.steps(name, committed - 1);
  return leftMs <= 0 ? committed : committed + Math.max(1, Math.ceil(leftMs / 1_000 / (newest?.seconds ?? 1)));
}
