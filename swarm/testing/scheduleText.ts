/** Actions and schedules as tests write them: one line a peer, `a: 0F0 0F1 0B0 0B1`. */
import { invariant, peerId } from '../base.ts';
import { type Action, formatAction, readAction, type Schedule } from '../schedule/action.ts';

export function parseAction(text: string): Action {
  const action = readAction(text);
  invariant(action !== null, `"${text}" is no action`);
  return action;
}

export const formatSchedule = (schedule: Schedule): string =>
  [...schedule].map(([peer, actions]) => `${peer}: ${actions.map(formatAction).join(' ')}`.trimEnd()).join('\n');

export function parseSchedule(text: string): Schedule {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return new Map(
    lines.map((line) => {
      const [peer = '', ...actions] = line.trim().split(/\s+/);
      invariant(peer.endsWith(':'), `"${line}" starts with no peer`);
      return [peerId(peer.slice(0, -1)), actions.map(parseAction)];
    }),
  );
}
