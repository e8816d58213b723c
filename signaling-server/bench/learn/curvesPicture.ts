/** Learning curves as a picture: a line each, its name beside its end, time to the right. */
import { at, rounded } from '../../../swarm/base.ts';

interface Line {
  readonly name: string;
  /** Drawn in dashes. */
  readonly isDashed: boolean;
  /** Lines of one hue belong together. */
  readonly hue: number;
  readonly points: readonly (readonly [x: number, y: number])[];
}

/** All in pixels. */
const [WIDTH, HEIGHT] = [960, 480];
const [LEFT, RIGHT, TOP, BOTTOM] = [56, 250, 52, 46];
const NAME_HEIGHT = 15;
/** Between two lines of the grid upwards, and how much of what lies above the lowest point is shown. */
const [GRID, SHOWN] = [0.2, 1.6];

interface Axes {
  readonly x: (value: number) => number;
  readonly y: (value: number) => number;
}

/** What is much higher than the lowest end is cut off: curves differ most where they begin, and matter where they end. */
export function drawCurves(lines: readonly Line[], title: string, [xName, yName]: readonly [string, string]): string {
  const all = lines.flatMap(({ points }) => points);
  const most = Math.ceil(Math.max(...all.map(([x]) => x)));
  const low = Math.floor(Math.min(...all.map(([, y]) => y)) / GRID) * GRID;
  const high = low + SHOWN;
  const axes: Axes = {
    x: (value) => pixels(LEFT + (value / most) * (WIDTH - LEFT - RIGHT)),
    y: (value) => pixels(TOP + ((high - value) / (high - low)) * (HEIGHT - TOP - BOTTOM)),
  };
  const bottom = HEIGHT - BOTTOM;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="ui-sans-serif, system-ui, sans-serif" font-size="12">`,
    `<title>${title}</title>`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`,
    `<text x="${LEFT}" y="24" font-size="15" font-weight="600" fill="#1b1f24">${title}</text>`,
    ...Array.from({ length: Math.round((high - low) / GRID) + 1 }, (_, index) => low + index * GRID).map(
      (y) =>
        `<path d="M${LEFT} ${axes.y(y)}H${WIDTH - RIGHT}" stroke="#e3e6ea"/><text x="${LEFT - 8}" y="${axes.y(y) + 4}" text-anchor="end" fill="#5b6470">${y.toFixed(1)}</text>`,
    ),
    ...Array.from({ length: most + 1 }, (_, x) => x).map(
      (x) => `<text x="${axes.x(x)}" y="${bottom + 18}" text-anchor="middle" fill="#5b6470">${x}</text>`,
    ),
    `<text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 10}" text-anchor="middle" fill="#5b6470">${xName}</text>`,
    `<text x="${LEFT}" y="${TOP - 10}" fill="#5b6470">${yName}</text>`,
    `<clipPath id="shown"><rect x="${LEFT}" y="${TOP}" width="${WIDTH - LEFT - RIGHT}" height="${bottom - TOP}"/></clipPath>`,
    '<g clip-path="url(#shown)">',
    ...lines.map((line) => drawn(line, axes)),
    '</g>',
    ...names(lines, axes),
    '</svg>',
    '',
  ].join('\n');
}

const colour = (hue: number): string => `hsl(${hue} 65% 40%)`;

function drawn({ hue, isDashed, points }: Line, { x, y }: Axes): string {
  const path = points.map(([a, b], index) => `${index === 0 ? 'M' : 'L'}${x(a)} ${y(b)}`).join('');
  return `<path d="${path}" fill="none" stroke="${colour(hue)}" stroke-width="2"${isDashed ? ' stroke-dasharray="6 4"' : ''}/>`;
}

/** At the right, in the order of their ends, none over another; a thin line leads from each end to its name. */
function names(lines: readonly Line[], { x, y }: Axes): string[] {
  const ends = lines
    .map((line) => ({ ...line, end: at(line.points, line.points.length - 1) }))
    .toSorted((a, b) => b.end[1] - a.end[1]);
  let next = TOP;
  const all = ends.map(({ name, hue, end }) => {
    const top = Math.max(next, y(end[1]), TOP);
    next = top + NAME_HEIGHT;
    return { name, hue, end, top };
  });
  const over = Math.max(0, next - NAME_HEIGHT - (HEIGHT - BOTTOM));
  return all.map(({ name, hue, end: [a, b], top }, index) => {
    const place = pixels(over === 0 ? top : Math.min(top, HEIGHT - BOTTOM - (all.length - 1 - index) * NAME_HEIGHT));
    const left = WIDTH - RIGHT + 16;
    return `<path d="M${x(a)} ${y(b)}L${left - 4} ${place}" stroke="${colour(hue)}" stroke-width=".6" opacity=".5"/><text x="${left}" y="${pixels(place + 4)}" fill="${colour(hue)}">${name}: ${rounded(b, 4)}</text>`;
  });
}

const pixels = (value: number): number => Math.round(value * 10) / 10;
