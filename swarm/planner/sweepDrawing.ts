/**
 * A sweep as a picture: a square a cell, the lighter the faster, its rate and what holds it back written into it, so that
 * nothing depends on telling colours apart.
 */
import { at, rounded } from '../base.ts';
import { escapedXml } from '../simulate/drawing.ts';
import type { Sweep, SweepAxis, SweepCell } from './sweep.ts';

/** All in pixels. */
const WIDTH = 96;
const HEIGHT = 48;
const LEFT = 96;
const TOP = 76;
const BOTTOM = 40;
/** What the longest line below needs. */
const LEAST_WIDTH = 620;
/** Of the slowest and the fastest cell: far enough apart on paper, too. */
const [DARK, LIGHT] = [28, 92];
/** Dark letters stand on what is lighter. */
const DARK_LETTERS_FROM = 58;

/** `x 4`, or a number of peers. */
export const axisValue = ({ name }: SweepAxis, value: number): string =>
  name === 'peers' ? String(value) : `x${rounded(value, 4)}`;

export function drawSweep({ axes, cells }: Sweep, title: string): string {
  const rows = at(axes, 0);
  const columns = axes[1] ?? null;
  const across = columns?.values.length ?? 1;
  const width = LEFT + across * WIDTH + 24;
  const height = TOP + rows.values.length * HEIGHT + BOTTOM;
  const text = (x: number, y: number, words: string, more = ''): string =>
    `<text x="${x}" y="${y}" fill="#1b1f24"${more}>${escapedXml(words)}</text>`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${Math.max(width, LEAST_WIDTH)}" height="${height}" viewBox="0 0 ${Math.max(width, LEAST_WIDTH)} ${height}" font-family="ui-sans-serif, system-ui, sans-serif" font-size="12">`,
    `<title>${escapedXml(title)}</title>`,
    '<rect width="100%" height="100%" fill="#fff"/>',
    text(12, 22, title, ' font-size="15" font-weight="600"'),
    text(12, 44, `down: ${rows.name}${columns === null ? '' : `; to the right: ${columns.name}`}`),
    ...(columns?.values ?? []).map((value, column) =>
      text(LEFT + (column + 0.5) * WIDTH, TOP - 8, axisValue(at(axes, 1), value), ' text-anchor="middle"'),
    ),
    ...rows.values.map((value, row) =>
      text(LEFT - 8, TOP + (row + 0.5) * HEIGHT + 4, axisValue(rows, value), ' text-anchor="end"'),
    ),
    ...cells.map((cell, index) => square(cell, index % across, Math.floor(index / across), shadeOf(cell, cells))),
    text(12, height - 14, 'In each cell: tokens a second, and what alone doubled helps most. The lighter, the faster.'),
    '</svg>',
    '',
  ].join('\n');
}

function square(
  { tokensPerSecond, limit, at: place }: SweepCell,
  column: number,
  row: number,
  lightness: number,
): string {
  const [x, y] = [LEFT + column * WIDTH, TOP + row * HEIGHT];
  const ink = lightness < DARK_LETTERS_FROM ? '#fff' : '#1b1f24';
  const rate = tokensPerSecond === null ? 'does not fit' : rounded(tokensPerSecond, 3);
  const line = (words: string, down: number, more = ''): string =>
    `<text x="${x + WIDTH / 2}" y="${y + down}" text-anchor="middle" fill="${ink}"${more}>${words}</text>`;
  return `<g><title>${place.join(', ')}: ${rate}, ${limit}</title><rect x="${x}" y="${y}" width="${WIDTH}" height="${HEIGHT}" fill="hsl(212 45% ${lightness.toFixed(0)}%)" stroke="#fff"/>${line(rate, 20, ' font-weight="600"')}${line(limit, 37)}</g>`;
}

/** By the logarithm of the rate; what does not fit is as dark as the slowest. */
function shadeOf({ tokensPerSecond }: SweepCell, cells: readonly SweepCell[]): number {
  const rates = cells.flatMap(({ tokensPerSecond: rate }) => rate ?? []).map(Math.log);
  const [least, most] = [Math.min(...rates), Math.max(...rates)];
  if (tokensPerSecond === null) return DARK;
  return most > least ? DARK + ((LIGHT - DARK) * (Math.log(tokensPerSecond) - least)) / (most - least) : LIGHT;
}
