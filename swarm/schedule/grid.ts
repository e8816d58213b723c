/** A schedule as text with places marked: the lists, each with an action in brackets and a word on it. */
import type { PeerId } from '../base.ts';
import { type Action, formatAction, type Schedule } from './action.ts';

export interface GridMark {
  /** Of the action in the peer's list; past its end, nothing is in brackets. */
  readonly index: number;
  readonly note: string;
}

/** Actions shown on either side of a mark. */
const AROUND = 12;

export const grid = (schedule: Schedule, marks: ReadonlyMap<PeerId, GridMark>): string =>
  [...schedule].map(([peer, actions]) => `${peer}: ${line(actions, marks.get(peer))}`.trimEnd()).join('\n');

function line(actions: readonly Action[], mark: GridMark | undefined): string {
  const middle = mark?.index ?? 0;
  const from = Math.max(0, Math.min(middle - AROUND, actions.length - 2 * AROUND - 1));
  const to = Math.min(actions.length, from + 2 * AROUND + 1);
  const cells = actions.slice(from, to).map((action, index) => {
    const text = formatAction(action);
    return from + index === mark?.index ? `[${text}]` : text;
  });
  const shown = [...(from > 0 ? ['…'] : []), ...cells, ...(to < actions.length ? ['…'] : [])].join(' ');
  return mark ? `${shown}  ${mark.note}` : shown;
}
