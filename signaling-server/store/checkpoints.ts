/**
 * Which checkpoints of a run stay, and which one it goes on from: the newest that loads. Beside the newest two an older
 * one stays past which steps went on, and the initial state always: so no two uploads can take everything from a run.
 */
import type { BlobStore } from '../files/blobs.ts';
import { wallMs } from '../monitoring/clock.ts';
import type { Log } from '../monitoring/log.ts';
import { largestGradientIn, type Manifest, manifestHashes, parseManifest, stateProblem } from './checkpointState.ts';
import { sweepBlobs } from './keptBlobs.ts';
import { documentHashes, storedDocument } from './runDocument.ts';
import type { Store } from './store.ts';

/** The newest and the one before it: a donor may be reading the older one. */
const NEWEST_KEPT = 2;
/** A state is verified when so many steps went on past it. */
const VERIFIED_STEPS = 10;
/** Its kind among the events of a run. */
const SET_ASIDE_EVENT = 'setAside';

/**
 * Of checkpoints that no operator marked, ascending: those that stay beside the newest one. The initial state, the newest
 * two, the newest verified one that is at or before `undoableFrom` (an audit may undo all that was done since), and one
 * that is to become that.
 */
export function retained(steps: readonly number[], undoableFrom = Infinity): ReadonlySet<number> {
  const newest = steps.slice(-NEWEST_KEPT);
  const older = steps.slice(0, -NEWEST_KEPT);
  const latest = steps.at(-1) ?? 0;
  const verified = older.findLast((step) => step <= Math.min(latest - VERIFIED_STEPS, undoableFrom));
  const next = older.find((step) => step > (verified ?? 0));
  return new Set([0, ...newest, ...[verified, next].filter((step) => step !== undefined)]);
}

/** Norm of the largest gradient that any step before `step` applied; `base`: a checkpoint before it. */
export function largestGradient(
  store: Store,
  run: string,
  base: Manifest,
  step: number,
  clipNorm: number | null,
): number {
  const applied = store
    .steps(run, base.step)
    .filter((record) => record.step < step)
    .map(({ gradientNorm }) => Math.min(gradientNorm, clipNorm ?? gradientNorm));
  return applied.reduce((most, norm) => Math.max(most, norm), largestGradientIn(base));
}

/** Makes this state the newest one, at once; then forgets the blobs that only superseded ones had. `awaited`: not of them. */
export function saveCheckpoint(
  store: Store,
  blobs: BlobStore,
  run: string,
  manifest: Manifest,
  { awaited = new Set(), undoableFrom }: { awaited?: ReadonlySet<string>; undoableFrom?: number | undefined } = {},
): Promise<void> {
  store.saveCheckpoint(run, manifest.step, JSON.stringify(manifest));
  const unmarked = store.checkpoints(run).flatMap(({ committedSteps, kept }) => (kept ? [] : committedSteps));
  const stay = retained(unmarked, undoableFrom);
  const superseded = unmarked.filter((step) => !stay.has(step));
  const hashes = superseded.flatMap((step) => hashesOf(store, run, step));
  for (const step of superseded) store.deleteCheckpoint(run, step);
  return sweepBlobs(
    store,
    blobs,
    hashes.filter((hash) => !awaited.has(hash)),
  );
}

/** Has the database copied, where it is time for that. */
export async function copied(store: Store, log: Log): Promise<void> {
  for (const text of await store.copy()) log('warn', text);
}

function hashesOf(store: Store, run: string, step: number): string[] {
  const manifest = store.checkpoint(run, step);
  return manifest === null ? [] : manifestHashes(parseManifest(manifest));
}

/** A checkpoint that cannot be gone on from: the run has it no more, and its history says why. */
export function setAside(store: Store, run: string, step: number, reason: string): void {
  store.deleteCheckpoint(run, step);
  store.addEvent(run, SET_ASIDE_EVENT, JSON.stringify({ reason }), wallMs(), step);
}

/** The newest checkpoint before `below` that loads, and what is wrong with those that are newer. */
export async function newestLoadable(
  { store, blobs }: { readonly store: Store; readonly blobs: BlobStore },
  run: string,
  below = Number.POSITIVE_INFINITY,
): Promise<{ readonly manifest: Manifest | null; readonly faults: ReadonlyMap<number, string> }> {
  const faults = new Map<number, string>();
  for (const { committedSteps } of store.checkpoints(run).toReversed()) {
    const text = committedSteps < below ? store.checkpoint(run, committedSteps) : null;
    if (text === null) continue; // not asked for, or superseded meanwhile
    const manifest = parseManifest(text);
    const problem = await stateProblem(blobs, manifest);
    if (problem === null) return { manifest, faults };
    faults.set(committedSteps, problem);
  }
  return { manifest: null, faults };
}

/** Sets aside what does not load; answers why where nothing does, or a text is damaged, and then leaves all as it is. */
export async function loadableProblem(
  data: { readonly store: Store; readonly blobs: BlobStore },
  run: string,
  warn: (text: string) => void,
): Promise<string | null> {
  for (const hash of documentHashes(storedDocument(data.store, run))) {
    const problem = await data.blobs.problem(hash);
    if (problem !== null) return `${problem}. It is of the run's texts: begun with its run file again, it is put right`;
  }
  const { manifest, faults } = await newestLoadable(data, run);
  if (manifest === null) return faults.values().next().value ?? null;
  for (const [step, problem] of faults) {
    warn(`${problem}. The run goes on from an older checkpoint.`);
    setAside(data.store, run, step, problem);
  }
  return null;
}
