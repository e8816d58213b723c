/** Why the server accepts no connection or no message: a closed list, each with one sentence for a person. */

export const REFUSAL_REASONS = [
  'wrongProtocol',
  'malformed',
  'tooLarge',
  'outOfOrder',
  'tooManyMessages',
  'serverFull',
  'notInvited',
  'noGpu',
  'runFinished',
  'tooLate',
  'faulty',
  'unhandled',
  'letGo',
  'blocked',
] as const;
export type RefusalReason = (typeof REFUSAL_REASONS)[number];

/** Reasons that lie with the donor itself: its address pays for them by waiting. */
export const AT_FAULT: ReadonlySet<RefusalReason> = new Set([
  ...(['malformed', 'tooLarge', 'outOfOrder', 'tooManyMessages', 'tooLate', 'faulty', 'unhandled'] as const),
]);

export const REFUSAL_SENTENCES: Readonly<Record<RefusalReason, string>> = {
  wrongProtocol: 'This page is of another version than the server: reload it.',
  malformed: 'The server did not understand a message of this page: reload it.',
  tooLarge: 'A message of this page was longer than the server accepts.',
  outOfOrder: 'A message of this page came when the server did not expect it.',
  tooManyMessages: 'This page sent more messages than the server accepts.',
  serverFull: 'The server has as many donors as it can hold: try again later.',
  notInvited: 'This run is by invitation: open the link that you were given, whole.',
  noGpu: 'This browser offers no GPU that can compute.',
  runFinished: 'The run is finished: there is nothing left to compute.',
  tooLate: 'This page did not answer in time: reload it to take part again.',
  letGo: 'Whoever runs this server has let this donor go. Reload the page to take part again.',
  blocked: 'Whoever runs this server has closed it to your network address.',
  unhandled: 'The server failed over a message of this page and let it go: reload it to take part again.',
  faulty: 'This page could not do its part of the work: reload it to take part again.',
};
