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
  wrongProtocol: 'This page is of another version than the server: reload it.',
  malformed: 'The server did not understand a message of this page.',
  tooLarge: 'A message of this page was longer than the server accepts.',
  outOfOrder: 'A message of this page came when the server did not expect it.',
  tooManyMessages: 'This page sent more messages than the server accepts.',
  serverFull: 'The server has as many donors as it can hold now.',
  notInvited: 'This run is by invitation: open the link that you were given, whole.',
  wrongInvitations: 'Many wrong invitations came from your network address within a minute.',
  runFinished: 'The run is finished: there is nothing left to compute.',
  tooLate: 'This page did not answer in time.',
  letGo: 'Whoever runs this server has let this donor go.',
  blocked: 'Whoever runs this server has closed it to your network address.',
  unhandled: 'The server failed over a message of this page and let it go.',
  faulty: 'This page could not do its part of the work.',
};
