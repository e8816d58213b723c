/** What a change leaves behind it: lines in the log, and what the page got over. Pure; when it happened is given. */
import type { Moment } from '../page/clock.ts';
import { outageAt, recovered, wentBack } from './incidents.ts';
import { written } from './log.ts';
import { headlineOf } from './sentences.ts';
import type { DonorState } from './state.ts';

export const remembered = (before: DonorState, after: DonorState, at: Moment): DonorState =>
  logged(before, endured(before, after, at), at.wallMs);

function endured(before: DonorState, after: DonorState, at: Moment): DonorState {
  const { phase } = after;
  const seen = rolledBack(before, after, at.wallMs);
  if (phase === before.phase) return seen;
  const outage = outageAt(before.outage, phase, before.run?.name ?? null, at.monotonicMs);
  const run = after.run?.name ?? null;
  const incident =
    before.outage && outage === null ? recovered(before.outage, phase, run, at.monotonicMs, at.wallMs) : null;
  return { ...seen, outage, incident: incident ?? seen.incident };
}

/** Progress that goes back says why. */
function rolledBack({ snapshot: before, seen }: DonorState, after: DonorState, atMs: number): DonorState {
  const { snapshot } = after;
  if (snapshot === null || snapshot === before) return after;
  const { run, committedSteps, groups } = snapshot;
  const now = { ...after, seen: { run, committedSteps } };
  if (seen === null || run !== seen.run || committedSteps >= seen.committedSteps) return now;
  return { ...now, incident: wentBack(seen.committedSteps, committedSteps, groups !== undefined, atMs) };
}

/** A change of the headline's word is news, and so is an incident of the tab; a sentence changes with every step. */
function logged(before: DonorState, after: DonorState, atMs: number): DonorState {
  let { log } = after;
  const { incident } = after;
  if (incident && incident !== before.incident)
    log = written(log, { atMs, text: `${incident.text}${incident.detail ? ` (${incident.detail})` : ''}` });
  const { word, sentence } = headlineOf(after);
  if (word !== headlineOf(before).word) {
    const detail = after.phase.kind === 'failed' && after.phase.detail ? ` (${after.phase.detail})` : '';
    log = written(log, { atMs, text: `${word}: ${sentence}${detail}` });
  }
  return log === after.log ? after : { ...after, log };
}
