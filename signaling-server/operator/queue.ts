/** The runs that are to come: when the active one is finished the next one takes its place, after a moment for its end. */
import { type Result, refusal, success } from '../../swarm/base.ts';
import type { ActiveRun } from '../run/run.ts';
import { parseDocument } from '../store/runDocument.ts';
import { stepsOf } from '../store/runTime.ts';
import type { Store } from '../store/store.ts';

/** So long the end of a run stands: those who made it see it, and whoever takes the next one out of the queue has not come too late. */
const END_SHOWN_MS = 10_000;

type Queue = Pick<Store, 'queue' | 'saveQueue' | 'besideRuns' | 'run' | 'committedSteps' | 'shares' | 'steps'>;

/** Also a run that is not there has nothing left to train. */
function isDone(store: Queue, name: string): boolean {
  const row = store.run(name);
  return row === null || store.committedSteps(name) >= stepsOf(store, name, parseDocument(row.document).file.train);
}

/** Puts a run at the end of the queue, or takes it out. */
export function setQueued(store: Queue, active: string, name: string, isWanted: boolean): Result<null> {
  const others = store.queue().filter((each) => each !== name);
  if (isWanted) {
    if (store.run(name) === null) return refusal(`there is no run "${name}" here`);
    if (name === active || store.besideRuns().includes(name)) return refusal('this run is active already');
    if (isDone(store, name)) return refusal('this run is finished: there is nothing left to train');
  }
  store.saveQueue(isWanted ? [...others, name] : others);
  return success(null);
}

/** The next run of the queue, which it then is no more; null: there is none that can be trained. */
export function takeNext(store: Queue, active: string | null): string | null {
  const queue = store.queue();
  const beside = store.besideRuns();
  const place = queue.findIndex((name) => name !== active && !beside.includes(name) && !isDone(store, name));
  if (queue.length > 0) store.saveQueue(place < 0 ? [] : queue.slice(place + 1));
  return queue[place] ?? null;
}

/** Changes over to the next run when this one is finished. Answers with what ends that. */
export function followQueue(
  run: Pick<ActiveRun, 'name' | 'phase' | 'onChange' | 'tellWatchers' | 'keep'>,
  store: Queue,
  onActivate: (run: string) => void,
  shownMs = END_SHOWN_MS,
): () => void {
  let timer: ReturnType<typeof setTimeout> | null = null;
  const look = (): void => {
    if (timer !== null || run.phase !== 'finished' || store.queue().length === 0) return;
    timer = setTimeout(() => {
      timer = null;
      run.keep(() => {
        const next = run.phase === 'finished' ? takeNext(store, run.name) : null;
        if (next !== null) onActivate(next);
      });
    }, shownMs);
    timer.unref();
  };
  const forget = run.onChange(look);
  look();
  return () => {
    forget();
    if (timer !== null) clearTimeout(timer);
  };
}
