/** Every state and every failure of the donor's page in plain words, with what to do about it. */
import { assertNever } from '../../../swarm/base.ts';
import type { SpareReason } from '../../../swarm/messages/messages.ts';
import { REFUSAL_REASONS, REFUSAL_SENTENCES, type RefusalReason } from '../../../swarm/messages/refusals.ts';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import { bytesText, durationText } from '../../../swarm/quantityText.ts';
import type { DonorStatus } from '../executor/protocol.ts';
import { timeText, trafficText } from '../page/format.ts';
import { plainReason } from '../page/plainReason.ts';
import { AWAY_MINUTES, type Condition, dayOf } from './conditions.ts';
import type { DonorPhase, FailureReason } from './phase.ts';
import {
  allGivenTokens,
  contributedTokens,
  type DonorState,
  hasHandOver,
  isAlone,
  isHeld,
  ownEntry,
  restReason,
} from './state.ts';
import { workSentence } from './work.ts';

interface Failure {
  readonly what: string;
  readonly advice: string;
}

const FAILURES: Readonly<Record<Exclude<FailureReason, RefusalReason>, Failure>> = {
  insecure: {
    what: 'This address isn’t secure, so the browser keeps the GPU to itself.',
    advice: 'Open this page over https, or on the server’s own computer as http://localhost.',
  },
  noWebGpu: {
    what: 'This browser has no WebGPU.',
    advice:
      'Use a current Chrome, Edge or Safari, or Firefox on Windows or macOS. Chrome on Linux has it by itself on some Intel GPUs only: elsewhere switch on chrome://flags/#enable-unsafe-webgpu and chrome://flags/#enable-vulkan.',
  },
  noWebRtc: {
    what: 'This browser has no WebRTC, which connects donors directly.',
    advice:
      'A privacy setting or an extension may have switched it off. Allow it for this page, or use another browser.',
  },
  noAdapter: {
    what: 'The browser offers this page no GPU.',
    advice:
      'Switch on hardware acceleration in the browser’s settings and update the graphics driver. chrome://gpu says more.',
  },
  deviceLost: {
    what: 'The GPU went away and didn’t come back.',
    advice: 'Close the browser completely, then open this page again.',
  },
  wrongGpu: {
    what: 'This GPU computes wrong results, so it can’t take part.',
    advice: 'Update the graphics driver or use another browser. The details below say what was wrong.',
  },
  internal: {
    what: 'Something went wrong on this page.',
    advice: 'Reload it. If it happens again, the details below say why.',
  },
};

/** The sentences of a refusal say themselves what to do. */
export function failureText(reason: FailureReason): Failure {
  const isRefusal = (text: FailureReason): text is RefusalReason => REFUSAL_REASONS.some((other) => other === text);
  return isRefusal(reason) ? { what: REFUSAL_SENTENCES[reason], advice: '' } : FAILURES[reason];
}

const ACTIVITIES: Readonly<Record<DonorStatus['activity'], string>> = {
  idle: 'Your GPU is ready and waits for its part.',
  preparing: 'Getting ready: loading your part and preparing your GPU. Up to a minute.',
  computing: 'Your GPU is training the model.',
  waiting: 'Your part of this step is done. Waiting for the others.',
  updating: 'The step is done. Your part of the model learns from it.',
  evaluating: 'Testing the model on text it has never seen.',
};

const FINISHED = 'The run is finished. Thank you!';
/** Its part of the model is still on this GPU. */
const STILL_ANSWERS = `${FINISHED} While this page is open, your GPU helps the model answer questions.`;
const ALONE = 'This step is done, and the next one begins.';

type Tone = 'calm' | 'good' | 'wait' | 'bad';

/** The state as one word with a glyph, so that colour is never the only sign, and one sentence. */
interface Headline {
  readonly glyph: string;
  readonly word: string;
  readonly sentence: string;
  readonly tone: Tone;
}

const headline = (tone: Tone, glyph: string, word: string, sentence: string): Headline => ({
  tone,
  glyph,
  word,
  sentence,
});

const LOOKING = 'Looking for a place for your GPU.';

const SPARE: Readonly<Record<SpareReason, string>> = {
  queued: LOOKING,
  full: 'Every place is taken. We’ll bring you in as soon as one is free.',
  noGain: 'Another GPU wouldn’t speed this up yet. We’ll bring you in as soon as it would.',
  mustWait:
    'Donors from your network came and went several times, which costs everyone time. The newest ones wait a while; then we’ll bring you in.',
};

/** Of a tab that had a part, and has none in a better plan. */
const DISPLACED =
  'With the donors here now, a step is quicker without your GPU. Thank you for your part; we’ll bring you back as soon as that changes.';

function spareSentence(state: DonorState, why: SpareReason | undefined, place: number | undefined): string {
  const isDisplaced = why === 'noGain' && contributedTokens(state) > 0;
  const words = why === undefined ? LOOKING : isDisplaced ? DISPLACED : SPARE[why];
  const { ownedBytes } = state;
  return [
    words,
    ...(place === undefined ? [] : [`You are number ${place} in the queue.`]),
    ...(ownedBytes === 0
      ? []
      : [`Meanwhile this tab adds up what others learn, and keeps ${bytesText(ownedBytes)} of it.`]),
  ].join(' ');
}

/** It goes on by itself: to resume now, the condition under Limits must go. */
export const waitsForCondition = (state: DonorState): boolean =>
  state.phase.kind === 'paused' && state.rest === null && restReason(state) !== null;

const trainsAlone = (state: DonorState): boolean => state.phase.kind === 'computing' && isAlone(state);

/** What stopping means now; `rests`: by a wish of its person. */
export function stopSentence(state: DonorState, rests: boolean): string {
  if (trainsAlone(state))
    return 'You train alone right now, so the newest steps are on your GPU only. Pause, Snooze and Leave save them first. “Pause now” and closing this tab lose what came after the last saved state.';
  if (state.phase.kind === 'spare' && !rests) {
    const what = state.ownedBytes > 0 ? 'Your GPU rests' : 'Nothing runs here';
    return `${what} while you’re on standby. Pause or snooze if you don’t want to be brought in.`;
  }
  if (!rests && state.phase.kind === 'reconnecting')
    return `Nothing runs here ${state.phase.reason === 'server' ? 'until the server answers' : 'for a moment'}. Then it goes on by itself, unless you leave or press “Pause now”.`;
  if (!rests) {
    // What an island did since the last meeting may be on this GPU alone.
    const lost = state.snapshot?.groups === undefined ? 'a step' : 'some steps';
    return `Pause, Snooze and Leave finish the step first. “Pause now” stops this very moment, and the others may have to repeat ${lost}.`;
  }
  if (isHeld(state)) return 'Nothing runs here. Your GPU goes on by itself when the operator lets the run go on.';
  return waitsForCondition(state)
    ? 'Nothing runs here. It waits for one of your own limits below.'
    : 'Nothing runs here.';
}

/** Of a button that was pressed and not confirmed yet. */
const PENDING: Readonly<Record<NonNullable<DonorState['pending']>, string>> = {
  pause: 'Finishing this step. Then your GPU rests.',
  resume: 'Asking the server for a place.',
  leave: 'Handing over your part. That takes a step or two.',
};
export const pendingSentence = (state: DonorState): string => {
  if (state.pending === 'leave' && trainsAlone(state))
    return 'Saving what only your GPU has. That takes a step or two, and as long as your line needs for it.';
  if (state.pending === 'leave' && !hasHandOver(state)) return 'Telling the server that you leave.';
  return state.pending === null ? '' : PENDING[state.pending];
};

/** What it costs not to wait for that. */
export function leaveNowSentence(state: DonorState): string {
  if (trainsAlone(state)) return 'Don’t wait. What came after the last saved state is lost.';
  return `Don’t wait. ${hasHandOver(state) ? 'The others may have to repeat a step.' : 'Nothing is lost.'}`;
}

/** The word is one of those that every page has (`STATE_WORDS`), but where this tab takes no part. */
export function headlineOf(state: DonorState): Headline {
  const { phase, pending } = state;
  const shown = changing(state, standing(state));
  if (pending === null || phase.kind === 'reconnecting') return shown;
  return pending === 'resume'
    ? headline('wait', '◔', 'Starting', pendingSentence(state))
    : { ...shown, sentence: pendingSentence(state) };
}

/** Where the server is about to change to another run, that is what there is to know. */
function changing(state: DonorState, shown: Headline): Headline {
  const { phase, snapshot, run } = state;
  const next = snapshot?.run === run?.name ? snapshot?.changesTo : undefined;
  if (next === undefined) return shown;
  const comesAlong = `The server changes to ${next}, and your GPU goes on with it by itself.`;
  if (phase.kind === 'reconnecting' || isHeld(state)) return { ...shown, sentence: comesAlong };
  if (phase.kind === 'computing' || phase.kind === 'joined')
    return { ...shown, sentence: `This step is the last for now. ${comesAlong}` };
  return phase.kind === 'spare' ? { ...shown, sentence: comesAlong } : shown;
}

function standing(state: DonorState): Headline {
  const { phase, status, snapshot } = state;
  if (snapshot && isHeld(state)) return headline('calm', '◐', 'Paused', heldSentence(snapshot));
  switch (phase.kind) {
    case 'idle':
      return headline('calm', '○', 'Standby', 'Nothing runs yet.');
    case 'starting':
      return headline('wait', '◔', 'Starting', STARTING[phase.waitsFor]);
    case 'joined': {
      const isPreparing = ownEntry(state)?.state === 'computing' || status?.activity === 'preparing';
      return headline('wait', '◔', 'Starting', isPreparing ? ACTIVITIES.preparing : joinedSentence(state));
    }
    case 'computing':
      return headline('good', '●', 'Training', keepsStateAlone(state) ? KEEPS_STATE : computingSentence(state));
    case 'spare':
      return phase.finished
        ? headline('good', '✓', 'Finished', (status?.gpuMemoryBytes ?? 0) > 0 ? STILL_ANSWERS : FINISHED)
        : headline('calm', '○', 'Standby', spareSentence(state, phase.why, phase.place));
    case 'paused':
      return pausedHeadline(state, phase.connected);
    case 'left':
      return headline('calm', '○', 'Left', leftSentence(phase));
    case 'postponed':
      return postponedHeadline(phase);
    case 'failed':
      return headline('bad', '✕', 'Failed', failureText(phase.reason).what);
    case 'reconnecting':
      return headline('wait', '↻', 'Reconnecting', RECONNECTING[phase.reason]);
    default:
      return assertNever(phase);
  }
}

/** Why the run is held up, in words for who cannot change it. */
const heldSentence = ({ isStopped, hasDiverged, cannotSave }: Snapshot): string => {
  if (cannotSave) return 'The server can’t save right now, so the run waits. Your GPU rests until it can.';
  return hasDiverged
    ? 'The run’s numbers have gone wrong, so it waits for its operator. Your GPU rests.'
    : `The operator has ${isStopped ? 'stopped' : 'paused'} the run. Your GPU rests until it goes on.`;
};

function leftSentence({ handedOver, by }: Extract<DonorPhase, { kind: 'left' }>): string {
  const who = by === 'operator' ? 'The operator has let your GPU go.' : 'You’ve left.';
  return `${who} ${handedOver ? 'Your part is in safe hands, and your GPU is free.' : 'Your GPU is free.'}`;
}

/** Who is let in is no donor of the newest snapshot yet: it would say that nobody is there. */
function joinedSentence(state: DonorState): string {
  const { snapshot } = state;
  if (ownEntry(state) && snapshot) return plainReason(snapshot.sentence);
  const others = snapshot?.donors.some((donor) => donor.state === 'computing');
  return others ? 'You’re in. The others make room for you.' : 'You’re in. Your first step begins in a moment.';
}

/** Counted down in seconds, so that nobody presses anything while it runs. */
function postponedHeadline({ reason, secondsLeft }: Extract<DonorPhase, { kind: 'postponed' }>): Headline {
  const again = `${REFUSAL_SENTENCES[reason]} This page tries again by itself in ${durationText(secondsLeft)}.`;
  return reason === 'runFinished' ? headline('good', '✓', 'Finished', again) : headline('calm', '○', 'Standby', again);
}

const KEEPS_STATE =
  'Your GPU keeps a part of what the others have learned: they need less memory, and less is lost when one of them leaves.';

/** Its plan has it keep state, and compute nothing. */
function keepsStateAlone(state: DonorState): boolean {
  const own = ownEntry(state);
  return own?.state === 'computing' && own.stages.length === 0;
}

/**
 * Before a whole step can be spoken of, how far this one is shows that it goes on. A worker's first step is the donor's first
 * only where it never gave any.
 */
function beginningSentence(state: DonorState, { microBatches: { done, all } }: DonorStatus): string {
  const which = allGivenTokens(state) > 0 ? 'next' : 'first';
  return `Your ${which} step${all > 1 ? `: ${done} of ${all} parts done` : ' has begun'}. On a slow computer it takes a minute.`;
}

function computingSentence(state: DonorState): string {
  const { status } = state;
  // The worker's word for the time before this step may still stand.
  const activity = status?.activity === 'preparing' || status === null ? 'computing' : status.activity;
  if (status?.lastStep && activity !== 'evaluating') return workSentence(state, status.lastStep);
  if (activity === 'computing' && status) return beginningSentence(state, status);
  return activity === 'waiting' && isAlone(state) ? ALONE : ACTIVITIES[activity];
}

const paused = (sentence: string): Headline => headline('calm', '◐', 'Paused', sentence);

function pausedHeadline(state: DonorState, isConnected: boolean): Headline {
  const { rest, surroundings } = state;
  if (rest?.kind === 'snooze') {
    const until = new Date(rest.untilMs);
    const day = surroundings.day === '' || dayOf(until) === surroundings.day ? '' : 'tomorrow at ';
    return paused(`Your GPU rests until ${day}${timeText(rest.untilMs)}. Then it goes on by itself.`);
  }
  const reason = restReason(state);
  if (reason !== null && reason !== 'button' && reason !== 'snooze') return paused(conditionSentence(state, reason));
  return paused(isConnected ? 'Your GPU rests until you resume.' : 'Your GPU rests, and nothing is connected.');
}

function conditionSentence(state: DonorState, condition: Condition): string {
  const { preferences, surroundings, today } = state;
  const { hours, uploadBytesPerDay, downloadBytesPerDay } = preferences;
  switch (condition) {
    case 'hours':
      return hours
        ? `It’s outside the hours you chose. Your GPU goes on by itself at ${timeText(new Date(2000, 0, 1, 0, hours.from).getTime())}.`
        : 'It’s outside the hours you chose.';
    case 'battery':
      return 'This computer runs on battery. Your GPU goes on when it’s plugged in.';
    case 'person':
      return surroundings.personSeenBy === 'system'
        ? `You’re using this computer. Your GPU goes on ${AWAY_MINUTES} minutes after you leave it.`
        : `You’re using this tab. Your GPU goes on ${AWAY_MINUTES} minutes after you leave it alone.`;
    case 'hidden':
      return 'This tab isn’t on screen. Your GPU goes on when it is.';
    case 'upload':
      return `Today’s upload is used up: ${trafficText(today.sentBytes)} of ${trafficText(uploadBytesPerDay ?? 0)}. Your GPU goes on after midnight.`;
    case 'download':
      return `Today’s download is used up: ${trafficText(today.receivedBytes)} of ${trafficText(downloadBytesPerDay ?? 0)}. Your GPU goes on after midnight.`;
    default:
      return assertNever(condition);
  }
}

const STARTING = {
  gpu: 'Opening your GPU.',
  server: 'Calling the server.',
  check: 'Checking that your GPU computes correctly, and how fast. Up to half a minute.',
};

const RECONNECTING = {
  server: 'The server doesn’t answer. This page keeps trying by itself.',
  deviceLost: 'The browser took the GPU away. This page gets it back by itself.',
  internal: 'Something went wrong. This page starts over by itself.',
};
