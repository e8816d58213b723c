/** Why the server accepts no connection or no message: a closed list, each with one sentence for a person. */
import type { Random } from '../base.ts';

export const REFUSAL_REASONS = [
  'wrongProtocol',
  'malformed',
  'tooLarge',
  'outOfOrder',
  'tooManyMessages',
  'serverFull',
  'notInvited',
  'wrongInvitations',
  'runFinished',
  'tooLate',
  'faulty',
  'convicted',
  'unhandled',
  'letGo',
  'blocked',
] as const;
export type RefusalReason = (typeof REFUSAL_REASONS)[number];

/** Reasons that lie with the donor itself: its address pays for them by waiting. */
export const AT_FAULT: ReadonlySet<RefusalReason> = new Set<RefusalReason>([
  ...(['malformed', 'tooLarge', 'outOfOrder', 'tooManyMessages', 'tooLate', 'faulty', 'unhandled'] as const),
]);

/** After how many seconds it may be otherwise; null: never, whoever asks again is refused again. */
const LATER_SECONDS: Readonly<Record<RefusalReason, number | null>> = {
  wrongProtocol: null,
  convicted: null,
  notInvited: null,
  blocked: null,
  serverFull: 30,
  tooLate: 30,
  faulty: 30,
  unhandled: 30,
  malformed: 60,
  tooLarge: 60,
  outOfOrder: 60,
  tooManyMessages: 60,
  wrongInvitations: 60,
  letGo: 600,
  runFinished: 600,
};

/** When this donor should ask again: up to twice as late, at random, so that those refused together do not come together. */
export function retrySeconds(reason: RefusalReason, random: Random): number | null {
  const seconds = LATER_SECONDS[reason];
  return seconds === null ? null : Math.round(seconds * (1 + random()));
}

export const REFUSAL_SENTENCES: Readonly<Record<RefusalReason, string>> = {
  wrongProtocol: 'The server has been updated since you opened this page. Reload it.',
  malformed: 'The server didn’t understand what this page sent.',
  tooLarge: 'This page sent more at once than the server takes.',
  outOfOrder: 'This page and the server lost track of each other.',
  tooManyMessages: 'This page sent too many messages.',
  serverFull: 'The server is full: it has as many donors as it can hold.',
  notInvited: 'This run is by invitation. Open the whole link that you were given.',
  wrongInvitations: 'Too many wrong invitations came from your network. Wait a minute.',
  runFinished: 'The run is finished. There’s nothing left to compute.',
  tooLate: 'This page didn’t answer in time, so the others went on without it.',
  letGo: 'The operator has let your GPU go for now.',
  blocked: 'Whoever runs this server has blocked this network address, so your GPU can’t join.',
  unhandled: 'The server ran into an error with this page.',
  convicted:
    'Part of this page’s work was done again and came out differently, so none of it counts. Update your browser and your graphics driver, and see that the GPU doesn’t overheat.',
  faulty: 'This page couldn’t do its part of the work.',
};
