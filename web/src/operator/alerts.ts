/** What should not go on unseen. Pure: a function of what the server said and of the time. */
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import type { AlertLimits, WatchedEvent, WatchedStep } from '../../../swarm/messages/watch.ts';
import type { Moment } from '../page/clock.ts';
import { durationText } from '../page/format.ts';
import { percentile } from './series.ts';

/** A step may always take so many times the usual one. */
const STALLED_TIMES = 5;
const USUAL_STEPS = 50;

export interface AlertInput {
  readonly snapshot: Pick<Snapshot, 'phase' | 'hasDiverged' | 'donors' | 'committedSteps' | 'sentence'>;
  readonly curve: readonly WatchedStep[];
  readonly events: readonly WatchedEvent[];
  readonly limits: AlertLimits;
  /** Since the newest step was seen to be committed, or the page was opened. */
  readonly stillMs: number;
  /** Since the newest checkpoint was saved. */
  readonly savedMs: number;
}

/** The newest checkpoint of a run, as this page knows it; an id of null: there is none yet. */
export interface Saved {
  readonly run: string;
  readonly id: number | null;
  /** By this page's monotonic clock; negative where it is older than the page. */
  readonly atMs: number;
}

/**
 * Only the wall clocks tell the age of a checkpoint that is older than this page, and the server's and this computer's
 * may differ. One that is saved while the page is open counts from when the page is told, whatever the wall clock does.
 */
export function savedAt(known: Saved | null, run: string, events: readonly WatchedEvent[], now: Moment): Saved {
  const newest = newestCheckpoint(events);
  const id = newest?.id ?? null;
  if (known?.run === run) return known.id === id ? known : { run, id, atMs: now.monotonicMs };
  const ageMs = newest === undefined ? 0 : Math.max(0, now.wallMs - newest.atMs);
  return { run, id, atMs: now.monotonicMs - ageMs };
}

const newestCheckpoint = (events: readonly WatchedEvent[]): WatchedEvent | undefined =>
  events.findLast(({ kind }) => kind === 'checkpoint');

/** At most one of each kind. */
export interface Alert {
  readonly kind: 'diverged' | 'rollBack' | 'donors' | 'stalled' | 'checkpoint';
  readonly text: string;
}

export function alertsOf({ snapshot, curve, events, limits, stillMs, savedMs }: AlertInput): Alert[] {
  const { phase, donors, committedSteps } = snapshot;
  if (snapshot.hasDiverged) return [{ kind: 'diverged', text: `The run stands: ${snapshot.sentence}` }];
  if (phase === 'paused' || phase === 'finished') return [];
  const found: Alert[] = [];
  const alert = (kind: Alert['kind'], text: string) => found.push({ kind, text });
  const back = events.findLast((event) => event.kind === 'rollBack');
  if (back !== undefined && committedSteps < back.atStep)
    alert(
      'rollBack',
      `The run went back to the newest checkpoint and does steps ${back.toStep} to ${back.atStep} again: ${back.reason}.`,
    );
  const computing = donors.filter(({ state }) => state === 'computing').length;
  // Between two plans everyone gets ready: that is a moment, or else the run stalls.
  if (phase !== 'preparing' && computing < limits.donors)
    alert('donors', `Too few donors: ${computing} at work, at least ${limits.donors} wanted.`);
  const still = stillMs / 1000;
  const usual = percentile(
    curve.slice(-USUAL_STEPS).map(({ seconds }) => seconds),
    0.5,
  );
  const allowed = Math.max(limits.stalledSeconds, STALLED_TIMES * (Number.isNaN(usual) ? 0 : usual));
  if (phase !== 'waiting' && still > allowed) alert('stalled', `The run stalls: no step for ${durationText(still)}.`);
  const saved = newestCheckpoint(events);
  if (saved && committedSteps > saved.step && savedMs > limits.checkpointMinutes * 60_000)
    alert(
      'checkpoint',
      `No checkpoint for ${durationText(savedMs / 1000)}: ${committedSteps - saved.step} steps would be lost.`,
    );
  return found;
}
