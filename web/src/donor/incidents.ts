/**
 * What befell this tab, how often it starts over, and that it went on by itself: a lost server, a lost GPU, a computer that slept, a reload, a GPU
 * of which a part computes wrong. Pure.
 * Shown until something newer happens, because whoever comes back after an hour asks why fewer steps are done.
 */
import type { TurnError } from '../../../swarm/messages/turn.ts';
import { durationText } from '../../../swarm/quantityText.ts';
import type { Moment } from '../page/clock.ts';
import { countText } from '../page/format.ts';
import { turnErrorText } from '../page/turnErrorText.ts';
import type { DonorPhase } from './phase.ts';

export interface Incident {
  readonly atMs: number;
  readonly text: string;
  /** What says nothing to most; absent: nothing. */
  readonly detail?: string;
}

/** What the page is getting over. */
export interface Outage {
  readonly reason: 'server' | 'deviceLost' | 'internal';
  /** By the monotonic clock. */
  readonly sinceMs: number;
  /** In which it took part. */
  readonly run: string | null;
}

/** A timer of a second that comes so late has slept with its computer. */
const SLEPT_MS = 20_000;

const WHAT: Readonly<Record<Outage['reason'], string>> = {
  server: 'The server didn’t answer',
  deviceLost: 'The browser took the GPU away',
  internal: 'Something went wrong here',
};

/** At a change of phase. Begins where the page starts over, and ends where it is let in again. */
export function outageAt(outage: Outage | null, phase: DonorPhase, run: string | null, nowMs: number): Outage | null {
  if (phase.kind === 'reconnecting') return outage ?? { reason: phase.reason, sinceMs: nowMs, run };
  return phase.kind === 'starting' ? outage : null;
}

/** Null where the page was not let in again: it left meanwhile, or was refused. */
export function recovered(
  { reason, sinceMs, run: before }: Outage,
  phase: DonorPhase,
  run: string | null,
  nowMs: number,
  atMs: number,
): Incident | null {
  if (!['joined', 'computing', 'spare'].includes(phase.kind)) return null;
  if (before !== null && run !== null && run !== before)
    return { atMs, text: `The server changed from ${before} to ${run}, and this tab came along.` };
  const lasted = durationText((nowMs - sinceMs) / 1_000);
  return { atMs, text: `${WHAT[reason]} for ${lasted}. Then this tab went on by itself.` };
}

/**
 * Of two looks a second apart; null: nothing was slept through. The gap is measured by the monotonic clock, because the
 * wall clock may be set meanwhile. In some browsers the monotonic clock stands still while the computer sleeps: such a
 * sleep is not told here. If it was long, the server has ended the connection meanwhile, and that outage is told.
 */
export function slept(before: Moment, now: Moment): Incident | null {
  const gapMs = now.monotonicMs - before.monotonicMs;
  if (gapMs < SLEPT_MS) return null;
  const text = `This computer slept, or the tab was frozen, for ${durationText(gapMs / 1_000)}. Then it went on by itself.`;
  return { atMs: now.wallMs, text };
}

/** Of a tab that was left too long ago to go on by itself. */
export const ended = (untilMs: number): Incident => ({
  atMs: untilMs,
  text: 'You closed or left this tab while it was donating. Nothing runs now. Press the button to go on.',
});

/** A GPU whose matrix unit is left out of this run. */
export const withoutUnit = (wrong: string, nowMs: number): Incident => ({
  atMs: nowMs,
  text: 'A part of this GPU (its matrix unit) computes wrong results, so it is not used. The rest is correct, and a little slower.',
  detail: wrong,
});

export const reloaded = (nowMs: number): Incident => ({
  atMs: nowMs,
  text: 'This tab was reloaded while it was donating, so it goes on by itself. Press Leave to end that.',
});

/** Each server once, by its URL, which has no user name and no password in it. */
export const turnFails = (errors: readonly TurnError[], nowMs: number): Incident => ({
  atMs: nowMs,
  text: `This site’s TURN server ${errors.map(turnErrorText).join('; ')}. What this tab exchanges with some donors may have to go through Shoal’s server, which is slower. You need not do anything.`,
});

/** The run has fewer steps than it had a moment ago. With islands those of one may be lost, and the others go on. */
export const wentBack = (fromStep: number, toStep: number, hasIslands: boolean, nowMs: number): Incident => {
  const steps = `from step ${countText(fromStep)} to step ${countText(toStep)}`;
  const text = hasIslands
    ? `The run went back ${steps}: what an island had done since they all met was lost with its donors, or the operator asked for it. Those steps are done again.`
    : `The run went back ${steps}, its last save, and does those steps again. That happens when a donor vanishes with the only copy of something, or when the operator asks for it.`;
  return { atMs: nowMs, text };
};

/** Failures that followed each other too closely to count as separate. */
export interface Trouble {
  readonly sinceMs: number;
  readonly lastMs: number;
  readonly count: number;
}

const CALM_MS = 60_000;
const DEVICE_LIMIT_MS = 130_000;
const DEVICE_FIRST_PAUSE_MS = 300;
const DEVICE_PAUSE_MS = 5_000;
const INTERNAL_TRIES = 3;
const INTERNAL_FIRST_PAUSE_MS = 500;

/** `hasComputed`: since the failure before; then a lost device is tried for its two minutes anew. */
export function nextTrouble(before: Trouble | null, nowMs: number, hasComputed: boolean): Trouble {
  if (!before || nowMs - before.lastMs > CALM_MS) return { sinceMs: nowMs, lastMs: nowMs, count: 1 };
  return { sinceMs: hasComputed ? nowMs : before.sinceMs, lastMs: nowMs, count: before.count + 1 };
}

/**
 * The pause before a worker that failed is started again; null: trying has no sense any more. Chromium forgives one crash of
 * its GPU process, then gives this page no adapter for two minutes, then none until the browser is restarted: so a lost
 * device is tried for a little more than two minutes, while a fault of the page itself gets three tries.
 */
export function restartPauseMs({ sinceMs, lastMs, count }: Trouble, reason: 'deviceLost' | 'internal'): number | null {
  if (reason === 'internal') return count > INTERNAL_TRIES ? null : INTERNAL_FIRST_PAUSE_MS * 4 ** (count - 1);
  if (lastMs - sinceMs > DEVICE_LIMIT_MS) return null;
  return count === 1 ? DEVICE_FIRST_PAUSE_MS : DEVICE_PAUSE_MS;
}
