/** What is wrong with a TURN server, for donors and operators: the URL, why it gave no address, the browser's code. */
import { TURN_UNREACHABLE, type TurnError } from '../../../swarm/messages/turn.ts';

/** RFC 8656 and 8489. */
const REASONS: Readonly<Record<number, string>> = {
  300: 'sends its users to another server',
  401: 'refuses the user name or password',
  403: 'forbids this use',
  486: 'gives this user name no more connections',
  508: 'has no capacity left',
  [TURN_UNREACHABLE]: 'cannot be reached',
};

export const turnErrorText = ({ url, code }: TurnError): string =>
  `${url} ${REASONS[code] ?? 'gives no address'} (error ${code})`;
