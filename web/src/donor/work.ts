/**
 * A step of this tab in words: how much of it the GPU worked, and for whom it waited otherwise. Pure. Said of the last
 * whole step, not of the moment, so that it can be read.
 */
import { assertNever, type PeerId } from '../../../swarm/base.ts';
import type { PublicStatus } from '../../../swarm/messages/publicStatus.ts';
import { durationText } from '../../../swarm/quantityText.ts';
import { busySeconds } from '../../../swarm/timeline/timeline.ts';
import { longestWait, waitsByPeer } from '../../../swarm/timeline/waits.ts';
import type { DonorStatus, StepTrace } from '../executor/protocol.ts';
import { percentText, trafficText } from '../page/format.ts';
import { type DonorState, isAlone } from './state.ts';

/** From here on a tab works hard. */
const HARD_SHARE = 0.6;
/** So much above what is given: something else on the computer stretches the work, which is no more of it. */
const STRETCHED = 0.1;

/** Share of a step in which something of it was being computed. */
export const workShare = ({ spans, seconds }: StepTrace): number =>
  seconds > 0 ? Math.min(1, busySeconds(spans) / seconds) : 0;

/** Whom the step stood still for the longest, and how long; null where it did not. */
const longestWaitOf = ({ waits }: StepTrace) => longestWait(waitsByPeer(waits));

/** `stage 2`, `stage 1, 3`; empty where it is not known. */
function placeText({ snapshot }: Pick<DonorState, 'snapshot'>, peer: PeerId): string {
  const stages = snapshot?.donors.find((donor) => donor.peer === peer)?.stages ?? [];
  return stages.length > 0 ? `stage ${stages.map(({ stage }) => stage + 1).join(', ')}` : '';
}

/** `donor 3f2a1c (stage 2)`. */
function peerText(state: Pick<DonorState, 'snapshot'>, peer: PeerId): string {
  const place = placeText(state, peer);
  return `donor ${peer}${place && ` (${place})`}`;
}

export function workSentence(state: DonorState, trace: StepTrace): string {
  const share = workShare(trace);
  const busy = `your GPU was busy for ${percentText(share)} of the last step`;
  const { speed } = state.limits;
  if (state.eased === 1 && share > speed + STRETCHED)
    return `Other work slows this GPU: it was busy for ${percentText(share)} of the last step, not ${percentText(speed)}.`;
  if (share >= HARD_SHARE) return `${state.eased < 1 ? 'Easing off for this computer' : 'Working hard'}: ${busy}.`;
  const wait = longestWaitOf(trace);
  const idleSeconds = trace.seconds * (1 - share);
  if ((wait?.seconds ?? 0) < idleSeconds / 2) {
    if (state.eased < 1) return `Easing off for this computer: ${busy}.`;
    if (state.limits.speed < 1) return `Taking it easy, as you chose: ${busy}.`;
  }
  if (isAlone(state)) return `You train it alone right now: ${busy}.`;
  if (wait === null) return `Part of the time: ${busy}.`;
  return `Mostly waiting for the others: ${busy}.`;
}

/** What this tab does at this moment, in a word, and for whom it waits if it does. */
export function phaseWords(
  state: Pick<DonorState, 'snapshot'>,
  { activity, waitsFor, direction, microBatches: { done, all } }: DonorStatus,
): { readonly word: string; readonly note: string } {
  switch (activity) {
    case 'idle':
      return { word: 'Idle', note: 'no part to do' };
    case 'preparing':
      return { word: 'Preparing', note: 'weights and programs' };
    case 'updating':
      return { word: 'Updating', note: 'the weights' };
    case 'evaluating':
      return { word: 'Evaluating', note: 'on unseen text' };
    case 'waiting':
      return { word: 'Waiting', note: 'for the step’s end' };
    case 'computing':
      if (waitsFor !== null)
        return { word: 'Waiting', note: `for ${placeText(state, waitsFor) || peerText(state, waitsFor)}` };
      if (all > 0 && done === all) return { word: 'Sending', note: 'gradients' };
      return direction === 'backward'
        ? { word: 'Backward', note: 'learning from its errors' }
        : { word: 'Forward', note: 'predicting the text' };
    default:
      return assertNever(activity);
  }
}

const MEGABYTE = 1e6;
/** Bytes a minute; below it a number says less than words. */
const LEAST_TRAFFIC = 1e4;
const COMPARISONS = [
  [1, 'less than reading news pages'],
  [5, 'about as much as listening to music'],
  [30, 'about as much as a video call'],
  [90, 'about as much as a film in HD'],
  [250, 'about as much as a film in 4K'],
] as const;

const comparison = (bytes: number): string =>
  COMPARISONS.find(([megabytes]) => bytes < megabytes * MEGABYTE)?.[1] ?? 'more than a film in 4K';

/** `34 MB a minute, about as much as a film in HD`. */
export const minuteText = (bytes: number): string =>
  bytes < LEAST_TRAFFIC ? 'next to nothing' : `${trafficText(bytes)} a minute, ${comparison(bytes)}`;

/** What a newcomer is to expect: what the others move, else the most that it may come to. */
export const expectedMinuteText = ({ bytes, isMeasured }: NonNullable<PublicStatus['minuteTraffic']>): string =>
  isMeasured || bytes < LEAST_TRAFFIC ? minuteText(bytes) : `up to ${minuteText(bytes)}`;

/** What a screen reader hears of the timeline. */
export function traceText(state: DonorState, trace: StepTrace): string {
  const count = (op: string): number => trace.spans.filter(({ action }) => action.op === op).length;
  const wait = longestWaitOf(trace);
  const waited = wait
    ? ` Waited longest for ${wait.peer === null ? 'the step’s end' : peerText(state, wait.peer)}: ${secondsText(wait.seconds)}.`
    : '';
  return `Step ${trace.step + 1} took ${secondsText(trace.seconds)}: ${count('F')} forward, ${count('B')} backward.${waited}`;
}

export const secondsText = (seconds: number): string =>
  seconds < 10 ? `${seconds.toFixed(2)} s` : durationText(seconds);
