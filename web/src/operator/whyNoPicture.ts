/** Why nothing comes of a run, as a page finds out and says it. Pure. */
import type { OperatorConnection } from './state.ts';

/** Why the server has no picture for this page, by the status of its answer. */
const WHY: Readonly<Record<number, OperatorConnection>> = { 401: 'loggedOut', 404: 'noRun', 503: 'noLeader' };

/** Null: there was no answer. A proxy's own 503, of a server that is away, is no JSON. */
export function whyNoPicture(answer: Pick<Response, 'status' | 'headers'> | null): OperatorConnection | undefined {
  if (answer === null || (answer.status === 503 && !answer.headers.get('content-type')?.includes('json')))
    return 'closed';
  return WHY[answer.status];
}

export const lostSentence = (connection: OperatorConnection, lostAt: string): string =>
  connection === 'noLeader'
    ? `This server can’t reach the one that leads the run. Everything below is as it was at ${lostAt}.`
    : `The server has not answered since ${lostAt}. Everything below is as it was then.`;
