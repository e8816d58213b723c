/** What should not go on unseen: on the dashboard, and where the server tells of it. Pure. */
import { median } from '../base.ts';
import { durationText, speedText } from '../quantityText.ts';
import type { Snapshot } from './snapshot.ts';
import type { AlertLimits, WatchedEvent, WatchedStep } from './watch.ts';

/** A step may always take so many times the usual one. */
const STALLED_TIMES = 5;
const USUAL_STEPS = 50;
/** Steps that make a change: a loss so much higher, a speed so much lower. */
const NEWEST_STEPS = 10;
const [JUMP_TIMES, JUMP_LEAST, FALL_TIMES] = [1.15, 0.1, 2];
/** Donors of before a server began are back by then, or are missed. */
const RETURN_SECONDS = 60;
const LEAST_FREE_BYTES = 2e9;

export interface AlertInput {
  readonly snapshot: Pick<
    Snapshot,
    'phase' | 'hasDiverged' | 'cannotSave' | 'isReturning' | 'donors' | 'committedSteps' | 'sentence'
  >;
  readonly curve: readonly WatchedStep[];
  readonly events: readonly WatchedEvent[];
  readonly limits: AlertLimits;
  /** Since the newest step was seen to be committed, or the page was opened. */
  readonly stillMs: number;
  /** Since the newest checkpoint was saved. */
  readonly savedMs: number;
  /** On the disk where the run is kept; null: not known. */
  readonly freeBytes: number | null;
}

/** One moment, by both clocks. */
interface Moment {
  readonly wallMs: number;
  readonly monotonicMs: number;
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
  readonly kind: 'diverged' | 'notSaved' | 'rollBack' | 'donors' | 'stalled' | 'checkpoint' | 'loss' | 'speed' | 'disk';
  readonly text: string;
}

export function alertsOf({ snapshot, curve, events, limits, stillMs, savedMs, freeBytes }: AlertInput): Alert[] {
  const { phase, donors, committedSteps } = snapshot;
  if (snapshot.hasDiverged) return [{ kind: 'diverged', text: `The run has paused by itself: ${snapshot.sentence}` }];
  if (snapshot.cannotSave) return [{ kind: 'notSaved', text: snapshot.sentence }];
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
  const still = stillMs / 1000;
  // Between two plans everyone gets ready: that is a moment, or else the run stalls. So it is until they are back.
  const isMoment = phase === 'preparing' || (phase === 'waiting' && snapshot.isReturning && still < RETURN_SECONDS);
  if (!isMoment && computing < limits.donors)
    alert('donors', `Too few donors: ${computing} training, and you want at least ${limits.donors}.`);
  const usual = median(curve.slice(-USUAL_STEPS).map(({ seconds }) => seconds));
  const allowed = Math.max(limits.stalledSeconds, STALLED_TIMES * (usual ?? 0));
  if (phase !== 'waiting' && still > allowed)
    alert('stalled', `Training is stuck: no step for ${durationText(still)}.`);
  const saved = newestCheckpoint(events);
  if (saved && committedSteps > saved.step && savedMs > limits.checkpointMinutes * 60_000)
    alert(
      'checkpoint',
      `No checkpoint for ${durationText(savedMs / 1000)}: ${committedSteps - saved.step} steps would be lost.`,
    );
  const jump = jumpOf(curve);
  if (jump !== null) alert('loss', jump);
  const fall = fallOf(curve);
  if (fall !== null) alert('speed', fall);
  if (freeBytes !== null && freeBytes < LEAST_FREE_BYTES)
    alert('disk', `The server’s disk is nearly full: ${(freeBytes / 1e9).toFixed(1)} GB are left for checkpoints.`);
  return found;
}

/** The newest few steps, held against the many before them: one bad step is none of it. */
function compared(curve: readonly WatchedStep[], of: (step: WatchedStep) => number) {
  const [newest, before] = [curve.slice(-NEWEST_STEPS), curve.slice(-USUAL_STEPS - NEWEST_STEPS, -NEWEST_STEPS)];
  const [now, then] = [median(newest.map(of)), median(before.map(of))];
  return before.length < USUAL_STEPS || now === null || then === null ? null : { now, then };
}

function jumpOf(curve: readonly WatchedStep[]): string | null {
  const losses = compared(curve, ({ loss }) => loss);
  if (losses === null || losses.now < losses.then * JUMP_TIMES + JUMP_LEAST) return null;
  return `The loss has jumped from about ${losses.then.toFixed(2)} to ${losses.now.toFixed(2)}. If it stays there, go back to a checkpoint and try a lower learning rate.`;
}

function fallOf(curve: readonly WatchedStep[]): string | null {
  const speeds = compared(curve, ({ tokens, seconds }) => (seconds > 0 ? tokens / seconds : 0));
  if (speeds === null || speeds.now * FALL_TIMES > speeds.then) return null;
  return `Training has slowed down: ${speedText(speeds.now)} tokens a second, ${speedText(speeds.then)} before. Swarm shows who holds it up.`;
}
