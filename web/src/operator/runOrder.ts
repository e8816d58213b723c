/** The runs that an operator looks for, in the order wished. Pure. */
import type { ListedRun } from '../../../swarm/run/runDraft.ts';

export const RUN_ORDERS = {
  newest: 'newest first',
  name: 'by name',
  loss: 'lowest loss on unseen text first',
  progress: 'most done first',
} as const;
export type RunOrder = keyof typeof RUN_ORDERS;
export const orderOf = (text: string): RunOrder => (text in RUN_ORDERS ? (text as RunOrder) : 'newest');

type Sortable = Pick<
  ListedRun,
  'name' | 'note' | 'isActive' | 'createdAtMs' | 'heldOutLoss' | 'committedSteps' | 'steps'
>;

const COMPARED: Readonly<Record<RunOrder, (a: Sortable, b: Sortable) => number>> = {
  newest: (a, b) => b.createdAtMs - a.createdAtMs,
  name: (a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }),
  loss: (a, b) => (a.heldOutLoss ?? Number.MAX_VALUE) - (b.heldOutLoss ?? Number.MAX_VALUE),
  progress: (a, b) => b.committedSteps / b.steps - a.committedSteps / a.steps,
};

/** The list may be of a moment before a change of runs: the run that this dashboard watches is the active one, or one beside it. */
export function withActive<Run extends Pick<ListedRun, 'name' | 'isActive' | 'isBeside'>>(
  runs: readonly Run[],
  watched: string,
): readonly Run[] {
  const isKnown = runs.some(({ name, isBeside }) => name === watched && !isBeside);
  return isKnown ? runs.map((run) => ({ ...run, isActive: run.name === watched })) : runs;
}

/** Whose name or note has every word of `search`; the active one always first. */
export function foundRuns<Run extends Sortable>(runs: readonly Run[], search: string, order: RunOrder): Run[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = ({ name, note }: Run): boolean => words.every((word) => `${name} ${note}`.toLowerCase().includes(word));
  return runs
    .filter(fits)
    .toSorted(
      (a, b) => Number(b.isActive) - Number(a.isActive) || COMPARED[order](a, b) || a.name.localeCompare(b.name),
    );
}
