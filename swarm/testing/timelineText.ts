/** A timeline as tests write it: `0F0 1-2, 1B0 2-4.5` of one peer, in seconds. */
import type { PeerId } from '../base.ts';
import type { Span } from '../timeline/timeline.ts';
import { parseAction } from './scheduleText.ts';

export const spansOf = (peer: PeerId, text: string): Span[] =>
  text.split(', ').map((span) => {
    const [, action = '', start, end] = /^(\S+) ([\d.]+)-([\d.]+)$/.exec(span) ?? [];
    return { peer, action: parseAction(action), startSeconds: Number(start), endSeconds: Number(end) };
  });
