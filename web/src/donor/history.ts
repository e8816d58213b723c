/** What a change leaves behind it: a line in the log, and what the page got over. Pure; when it happened is given. */
import { outageAt, recovered } from './incidents.ts';
import { written } from './log.ts';
import { headlineOf } from './sentences.ts';
import type { DonorState } from './state.ts';

export const remembered = (before: DonorState, after: DonorState, atMs: number): DonorState =>
  logged(before, endured(before, after, atMs), atMs);

function endured(before: DonorState, after: DonorState, atMs: number): DonorState {
  const { phase } = after;
  if (phase === before.phase) return after;
  const outage = outageAt(before.outage, phase, atMs);
  const incident = before.outage && outage === null ? recovered(before.outage, phase, atMs) : null;
  return { ...after, outage, incident: incident ?? after.incident };
}

/** A change of the headline's word is news; its sentence changes with every step. */
function logged(before: DonorState, after: DonorState, atMs: number): DonorState {
  const { word, sentence } = headlineOf(after);
  if (word === headlineOf(before).word) return after;
  const detail = after.phase.kind === 'failed' && after.phase.detail ? ` (${after.phase.detail})` : '';
  return { ...after, log: written(after.log, { atMs, text: `${word}: ${sentence}${detail}` }) };
}
