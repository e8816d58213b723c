/** Every state and every failure of the donor's page in plain words, with what to do about it. */
import { assertNever } from '../../../swarm/base.ts';
import type { SpareReason } from '../../../swarm/messages/messages.ts';
import { REFUSAL_REASONS, REFUSAL_SENTENCES, type RefusalReason } from '../../../swarm/messages/refusals.ts';
import type { DonorStatus } from '../executor/protocol.ts';
import { durationText, timeText, trafficText } from '../page/format.ts';
import { AWAY_MINUTES, type Condition } from './conditions.ts';
import type { DonorPhase, FailureReason } from './phase.ts';
import { type DonorState, ownEntry, restReason } from './state.ts';
import { workSentence } from './work.ts';

interface Failure {
  readonly what: string;
  readonly advice: string;
}

const FAILURES: Readonly<Record<Exclude<FailureReason, RefusalReason>, Failure>> = {
  insecure: {
    what: 'This address is not secure, so the browser gives no access to the GPU.',
    advice: 'Open this page over https, or on the computer it is served from as http://localhost.',
  },
  noWebGpu: {
    what: 'This browser does not offer WebGPU.',
    advice:
      'Use a current Chrome, Edge or Safari, or Firefox on Windows or macOS. Chrome on Linux may need chrome://flags/#enable-unsafe-webgpu.',
  },
  noWebRtc: {
    what: 'This browser does not offer WebRTC, which connects donors directly.',
    advice:
      'A privacy setting or an extension may have switched it off: allow it for this page, or use another browser.',
  },
  noAdapter: {
    what: 'The browser found no GPU that it can compute with.',
    advice: 'Switch on hardware acceleration in its settings and update the graphics driver; chrome://gpu says more.',
  },
  deviceLost: {
    what: 'The GPU was lost and did not come back.',
    advice: 'Close the browser completely, open it again and come back to this page.',
  },
  wrongGpu: {
    what: 'This GPU computes wrong results, so the swarm cannot use it.',
    advice: 'Update the graphics driver or use another browser; the line below says what was wrong.',
  },
  internal: {
    what: 'This page failed while it computed.',
    advice: 'Reload it. If that happens again, the line below says why.',
  },
};

/** The sentences of a refusal say themselves what to do. */
export function failureText(reason: FailureReason): Failure {
  const isRefusal = (text: FailureReason): text is RefusalReason => REFUSAL_REASONS.some((other) => other === text);
  return isRefusal(reason) ? { what: REFUSAL_SENTENCES[reason], advice: '' } : FAILURES[reason];
}

const ACTIVITIES: Readonly<Record<DonorStatus['activity'], string>> = {
  idle: 'Your GPU is ready and waits for its part.',
  preparing: 'Fetching weights and text, compiling shaders.',
  computing: 'Your GPU is computing.',
  waiting: 'Your part of this step is done; waiting for the others.',
  updating: 'The step is complete; applying what was learned.',
  evaluating: 'Measuring the model on text that it never trains on.',
};

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

const LOOKING = 'Your GPU rests while the server works out whether there is a place for it.';

const SPARE: Readonly<Record<SpareReason, string>> = {
  queued: LOOKING,
  full: 'Every place is taken. Your GPU rests until one is free.',
  noGain:
    'By what your GPU and its links measured, a step would take no less time with it. It rests, and the server looks again whenever something changes.',
  mustWait:
    'Donors at your network address came and went several times at the cost of everyone else, so the newest ones wait a while for a place. Your GPU rests until then.',
};

const spareSentence = (why: SpareReason | undefined, place: number | undefined): string =>
  `${why === undefined ? LOOKING : SPARE[why]}${place === undefined ? '' : ` It is number ${place} of those who wait.`}`;

const PENDING = {
  pause: headline('wait', '◔', 'Pausing', 'Finishing what is under way, then your GPU rests.'),
  resume: headline('wait', '◔', 'Resuming', 'Asking the server for a place.'),
  leave: headline('wait', '◔', 'Leaving', 'The server is taking over what this tab keeps; that takes a step or two.'),
};

export function headlineOf(state: DonorState): Headline {
  const { phase, pending, status, snapshot } = state;
  if (pending !== null && phase.kind !== 'reconnecting') return PENDING[pending];
  const isHeld = snapshot?.phase === 'paused';
  if (isHeld && (phase.kind === 'joined' || phase.kind === 'computing')) {
    return headline('calm', '◐', 'Run paused', snapshot.sentence || 'The run rests until its operator goes on.');
  }
  switch (phase.kind) {
    case 'idle':
      return headline('calm', '○', 'Not started', 'Nothing runs yet.');
    case 'starting':
      return headline('wait', '◔', 'Starting', STARTING[phase.waitsFor]);
    case 'joined': {
      const isPreparing = ownEntry(state)?.state === 'computing' || status?.activity === 'preparing';
      // Who is let in is no donor of the newest snapshot yet: it would say that nobody is there.
      const waiting =
        (snapshot?.donors.length && snapshot.sentence) || 'You are in; the server is making room for you.';
      return headline('wait', '◔', 'Joined', isPreparing ? ACTIVITIES.preparing : waiting);
    }
    case 'computing':
      return keepsCopiesAlone(state)
        ? headline('good', '▣', 'Keeps copies', KEEPS_COPIES)
        : headline('good', '●', 'Computing', computingSentence(state));
    case 'spare':
      return phase.finished
        ? headline('good', '✓', 'Finished', 'The run is finished. Nothing is left to compute: thank you.')
        : headline('calm', '○', 'Spare', spareSentence(phase.why, phase.place));
    case 'paused':
      return pausedHeadline(state, phase.connected);
    case 'left':
      return phase.confirmed
        ? headline('calm', '○', 'Left', 'You have left. The swarm has what it needs, and your GPU is free again.')
        : headline('calm', '○', 'Left', 'You have left at once. Your GPU is free again.');
    case 'postponed':
      return postponedHeadline(phase);
    case 'failed':
      return headline('bad', '✕', 'Stopped', failureText(phase.reason).what);
    case 'reconnecting':
      return RECONNECTING[phase.reason];
    default:
      return assertNever(phase);
  }
}

/** Counted down in seconds, so that nobody presses anything while it runs. */
function postponedHeadline({ reason, secondsLeft }: Extract<DonorPhase, { kind: 'postponed' }>): Headline {
  const again = `${REFUSAL_SENTENCES[reason]} This page asks again by itself in ${durationText(secondsLeft)}.`;
  return reason === 'runFinished' ? headline('good', '✓', 'Finished', again) : headline('wait', '◔', 'Waiting', again);
}

const KEEPS_COPIES =
  'This tab computes nothing now. It keeps copies of what others have learned, so that nothing is lost when one of them goes.';

/** Its plan has it keep state, and compute nothing. */
function keepsCopiesAlone(state: DonorState): boolean {
  const own = ownEntry(state);
  return own?.state === 'computing' && own.stages.length === 0;
}

function computingSentence(state: DonorState): string {
  const { status } = state;
  // The worker's word for the time before this step may still stand.
  const activity = status?.activity === 'preparing' || status === null ? 'computing' : status.activity;
  return status?.lastStep && activity !== 'evaluating' ? workSentence(state, status.lastStep) : ACTIVITIES[activity];
}

function pausedHeadline(state: DonorState, isConnected: boolean): Headline {
  const { rest } = state;
  if (rest?.kind === 'snooze') {
    const until = `Your GPU rests until ${timeText(rest.untilMs)}, then it goes on by itself.`;
    return headline('calm', '◐', 'Snoozing', until);
  }
  const reason = restReason(state);
  if (reason !== null && reason !== 'button' && reason !== 'snooze') {
    return headline('calm', '◐', 'Resting', conditionSentence(state, reason));
  }
  if (!isConnected) {
    return headline('calm', '◐', 'Paused', 'Stopped at once: nothing computes here, and nothing is connected.');
  }
  return headline('calm', '◐', 'Paused', 'Your GPU rests until you resume.');
}

function conditionSentence(state: DonorState, condition: Condition): string {
  const { preferences, surroundings, today } = state;
  const { hours, uploadBytesPerDay, downloadBytesPerDay } = preferences;
  switch (condition) {
    case 'hours':
      return hours
        ? `It is outside the hours that you chose. Your GPU goes on by itself at ${timeText(new Date(2000, 0, 1, 0, hours.from).getTime())}.`
        : 'It is outside the hours that you chose.';
    case 'battery':
      return 'This computer runs on its battery. Your GPU goes on by itself on mains power.';
    case 'person':
      return surroundings.personSeenBy === 'system'
        ? `You use this computer. Your GPU goes on by itself ${AWAY_MINUTES} minutes after you have left it.`
        : `You use this tab. Your GPU goes on by itself ${AWAY_MINUTES} minutes after you have left it alone.`;
    case 'hidden':
      return 'This tab is not on screen. Your GPU goes on by itself when it is.';
    case 'upload':
      return `Today’s upload is used up: ${trafficText(today.sentBytes)} of ${trafficText(uploadBytesPerDay ?? 0)}. Your GPU goes on by itself after midnight.`;
    case 'download':
      return `Today’s download is used up: ${trafficText(today.receivedBytes)} of ${trafficText(downloadBytesPerDay ?? 0)}. Your GPU goes on by itself after midnight.`;
    default:
      return assertNever(condition);
  }
}

const STARTING = {
  gpu: 'Opening the GPU.',
  server: 'Calling the server.',
  check: 'Checking that this GPU computes right, and how fast; that takes some seconds.',
};

const RECONNECTING = {
  server: headline('wait', '↻', 'Reconnecting', 'The server does not answer. This page keeps trying by itself.'),
  deviceLost: headline('wait', '↻', 'Restarting', 'The GPU was taken away. This page is starting it again by itself.'),
  internal: headline('wait', '↻', 'Restarting', 'Something failed here. This page is starting over by itself.'),
};
