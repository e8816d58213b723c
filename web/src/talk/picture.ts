/** An answer as a picture to hand on: drawn on this page, so that no server sees it, and saved as a PNG. */
import { saveBlob } from '../page/save.ts';

interface AnswerPicture {
  /** What somebody wrote. */
  readonly words: string;
  readonly answer: string;
  /** Small lines below: which model, and where the answer is from. */
  readonly about: readonly string[];
  readonly name: string;
}

const WIDTH_PX = 1_080;
const MARGIN_PX = 72;
const TEXT_PX = 36;
const LINE_PX = 54;
const SMALL_PX = 24;
const SMALL_LINE_PX = 36;
const GAP_PX = 48;
const MOST_LINES = 30;
const SERIF = 'Georgia, "Times New Roman", serif';
const [GROUND, INK, SOFT, ACCENT] = ['#ffffff', '#0e2330', '#4b616d', '#0a6c80'];

/** A word, or a part of one that is too long for a line, and how it is written. */
interface PlacedWord {
  readonly text: string;
  readonly isOwn: boolean;
  readonly x: number;
}

/** Lines of the two texts, one after the other, none wider than `width`; at most so many, of which the last ends with "…". */
export function placedLines(
  { words, answer }: Pick<AnswerPicture, 'words' | 'answer'>,
  width: number,
  measure: (text: string, isOwn: boolean) => number,
  most = MOST_LINES,
): readonly (readonly PlacedWord[])[] {
  const lines: PlacedWord[][] = [[]];
  let x = 0;
  const place = (text: string, isOwn: boolean): void => {
    const wide = measure(text, isOwn);
    if (x + wide > width && x > 0) {
      lines.push([]);
      x = 0;
      if (text.trim() === '') return;
    }
    if (wide > width && text.length > 1) {
      const half = Math.ceil(text.length / 2);
      place(text.slice(0, half), isOwn);
      place(text.slice(half), isOwn);
      return;
    }
    lines.at(-1)?.push({ text, isOwn, x });
    x += wide;
  };
  for (const [text, isOwn] of [[words, true] as const, [answer, false] as const])
    for (const part of text.match(/\n|[^\S\n]+|\S+/g) ?? []) {
      if (part !== '\n') place(part, isOwn);
      else {
        lines.push([]);
        x = 0;
      }
    }
  if (lines.length <= most) return lines;
  return [...lines.slice(0, most - 1), [{ text: '…', isOwn: false, x: 0 }]];
}

export async function savePicture({ words, answer, about, name }: AnswerPicture): Promise<void> {
  const canvas = document.createElement('canvas');
  const context = canvas.getContext('2d');
  if (context === null) return;
  const fontOf = (isOwn: boolean): string => `${isOwn ? 'bold ' : ''}${TEXT_PX}px ${SERIF}`;
  const lines = placedLines({ words, answer }, WIDTH_PX - 2 * MARGIN_PX, (text, isOwn) => {
    context.font = fontOf(isOwn);
    return context.measureText(text).width;
  });
  canvas.width = WIDTH_PX;
  canvas.height = 2 * MARGIN_PX + lines.length * LINE_PX + GAP_PX + about.length * SMALL_LINE_PX;
  context.fillStyle = GROUND;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = ACCENT;
  context.fillRect(0, 0, 12, canvas.height);
  context.textBaseline = 'top';
  context.fillStyle = INK;
  for (const [index, line] of lines.entries())
    for (const { text, isOwn, x } of line) {
      context.font = fontOf(isOwn);
      context.fillText(text, MARGIN_PX + x, MARGIN_PX + index * LINE_PX);
    }
  context.fillStyle = SOFT;
  context.font = `${SMALL_PX}px system-ui, sans-serif`;
  const bottom = MARGIN_PX + lines.length * LINE_PX + GAP_PX;
  for (const [index, line] of about.entries())
    context.fillText(line, MARGIN_PX, bottom + index * SMALL_LINE_PX, WIDTH_PX - 2 * MARGIN_PX);
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, 'image/png'));
  if (blob !== null) saveBlob(name, blob);
}
