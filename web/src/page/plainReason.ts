/**
 * Reasons of the server and of donors in words for people: which digest, tensor or number was wrong says nothing to most who
 * read a history, and stands behind its details. Pure.
 */
import type { RefusalReason } from '../../../swarm/messages/refusals.ts';

/** Why a donor was refused, of a donor: "Lost abcdef: …". */
const REFUSED: Readonly<Record<RefusalReason, string>> = {
  wrongProtocol: 'its page is of another version than the server',
  malformed: 'the server did not understand what its page sent',
  tooLarge: 'its page sent more at once than the server takes',
  outOfOrder: 'its page and the server lost track of each other',
  tooManyMessages: 'its page sent too many messages',
  serverFull: 'the server was full',
  notInvited: 'it was not invited',
  wrongInvitations: 'too many wrong invitations came from its network',
  runFinished: 'the run was finished',
  tooLate: 'it did not answer in time',
  letGo: 'an operator let it go',
  blocked: 'its address is blocked',
  unhandled: 'the server ran into an error with its page',
  convicted: 'its work came out wrong',
  faulty: 'it could not do its part of the work',
};

const isRefusal = (word: string): word is RefusalReason => word in REFUSED;

type Rule = readonly [pattern: RegExp, plain: string | ((...found: string[]) => string)];

/** Each takes the place of what it finds; ids stand as they are. */
const RULES: readonly Rule[] = [
  [
    /^it was refused: (\w+), .*?(; it had no work, so nothing was lost)?$/s,
    (whole, reason = '', rest = '') => (isRefusal(reason) ? `${REFUSED[reason]}${rest}` : whole),
  ],
  [/^([\w-]+) was refused: .*$/s, '$1 was removed: what it sent could not be right'],
  [/^the server saw it too: ([\w-]+): .*$/s, 'what $1 was handed was damaged'],
  [/^([\w-]+): the link to ([\w-]+) was lost\b.*$/s, '$1 lost its link to $2'],
  [/^([\w-]+): badFrame\b.*$/s, '$1 got damaged data'],
  [/^([\w-]+): (?:internal|linkLost)\b.*$/s, '$1 ran into an error'],
  [/ was not committed: its (.+?) is not a finite number/, ' came out wrong (its $1 is no number)'],
  [/, and ([\w-]+) made it of finite ones(?: \(.*?\))?/, '; it began with $1'],
  [/^The keepers of .* did not get the same slices$/s, 'Two donors got different copies of the same data'],
  [
    / overflowed and is done again at a loss scale of [\d.e+]+$/,
    ' had numbers too large for half precision and is done again',
  ],
  [/ said what nobody asked for$/, '’s page and the server lost track of each other'],
  [/^the run begins again from its store$/, 'the server began the run again from what is saved'],
  [/^the server started again from its store$/, 'the server was started again and goes on from what is saved'],
  [/ can keep copies of the state that are missing$/, ' can keep copies that are missing'],
  [/^a plan was needed$/, 'the run needed a plan'],
];

export function plainReason(reason: string): string {
  for (const [pattern, plain] of RULES)
    reason = typeof plain === 'string' ? reason.replace(pattern, plain) : reason.replace(pattern, plain);
  return reason;
}
