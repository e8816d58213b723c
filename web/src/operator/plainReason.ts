/** The planner's exact words as people read them: sizes with their unit, layers counted from 1. Pure. */
import { bytesText, layersText } from '../page/format.ts';

export const plainReason = (words: string): string =>
  words
    .replaceAll(/\b(\d+) bytes\b/g, (_, bytes) => bytesText(Number(bytes)))
    .replaceAll(/\blayers \[(\d+), (\d+)\)/g, (_, from, to) => layersText([Number(from), Number(to)]));
