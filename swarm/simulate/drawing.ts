/**
 * A timeline as a picture: a row a peer, a bar an action, time to the right. Legible with eight peers and 32
 * micro-batches: most bars are as wide as their micro-batch's number needs, shades tell the stages of one peer apart, and what
 * a bar is stands in it (`3`: forward, in bold: backward, in italics: recompute) and in full in its tooltip.
 */
import { arrayOf, rounded } from '../base.ts';
import { counted } from '../quantityText.ts';
import { formatAction, type MicroAction } from '../schedule/action.ts';
import { type Bar, barsOf, type SimulationOutcome } from './outcome.ts';
import type { Served } from './served.ts';

/** All in pixels. */
const ROW = 26;
const GAP = 6;
const LEFT = 64;
const TOP = 64;
const DIGIT = 7.2;
const LEAST_WIDTH = 720;
const MOST_WIDTH = 24_000;

/** More pieces of requests than this are drawn as one bar for each idle interval. */
const MOST_PIECES = 5000;

/** Hues that differ in lightness too, so that they can be told apart without their colour. */
const HUES: Readonly<
  Record<'F' | 'R' | 'B' | 'P', { readonly hue: number; readonly lightness: number; readonly name: string }>
> = {
  F: { hue: 212, lightness: 84, name: 'forward' },
  R: { hue: 42, lightness: 74, name: 'recompute' },
  B: { hue: 152, lightness: 58, name: 'backward' },
  P: { hue: 312, lightness: 91, name: 'requests' },
};

export function drawTimeline(outcome: SimulationOutcome, title: string): string {
  const { makespanSeconds, peers } = outcome;
  const bars = barsOf(outcome);
  const scale = pixelsPerSecond(makespanSeconds, bars);
  const stages = bars.reduce((most, { action }) => Math.max(most, action.stage + 1), 1);
  const width = LEFT + Math.ceil(makespanSeconds * scale) + 24;
  const height = TOP + peers.length * (ROW + GAP) + 34;
  const bottom = TOP + peers.length * (ROW + GAP);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="ui-sans-serif, system-ui, sans-serif" font-size="12">`,
    `<title>${escapedXml(title)}</title>`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    ...heading(outcome, bars, title),
    ...ticks(makespanSeconds).map(
      (seconds) =>
        `<path d="M${pixelsAt(seconds, scale)} ${TOP - 4}V${bottom}" stroke="#d5d9df"/><text x="${pixelsAt(seconds, scale)}" y="${bottom + 16}" text-anchor="middle" fill="#5b6470">${rounded(seconds, 4)} s</text>`,
    ),
    ...peers.map(
      (_, peer) =>
        `<rect x="${LEFT}" y="${top(peer)}" width="${round(makespanSeconds * scale)}" height="${ROW}" fill="#f0f2f5"/><text x="${LEFT - 8}" y="${top(peer) + 17}" text-anchor="end" fill="#1b1f24">peer ${peer}</text>`,
    ),
    ...bars.map((bar) => drawn(bar, scale, peers.length, stages)),
    ...(outcome.served === undefined ? [] : piecesDrawn(outcome.served, scale)),
    '</svg>',
    '',
  ].join('\n');
}

function heading(outcome: SimulationOutcome, bars: readonly Bar[], title: string): string[] {
  const { makespanSeconds, bubbleRatio, served } = outcome;
  const whole = `${rounded(makespanSeconds, 4)} s, ${Number((100 * bubbleRatio).toFixed(2))} % idle`;
  const ops = (['F', 'R', 'B', 'P'] as const).filter((op) =>
    op === 'P' ? served !== undefined : bars.some(({ action }) => action.op === op),
  );
  return [
    `<text x="${LEFT}" y="22" font-size="15" font-weight="600" fill="#1b1f24">${escapedXml(title)}: ${whole}</text>`,
    ...ops.map((op, index) => {
      const x = LEFT + index * 110;
      const { hue, lightness, name } = HUES[op];
      return `<rect x="${x}" y="34" width="14" height="14" fill="hsl(${hue} 60% ${lightness}%)" stroke="#3a4250" stroke-width=".5"/><text x="${x + 20}" y="45" fill="#1b1f24">${name}</text>`;
    }),
  ];
}

function drawn({ peer, action, start, end }: Bar, scale: number, peers: number, stages: number) {
  const x = pixelsAt(start, scale);
  const width = round((end - start) * scale);
  const text = String(action.microBatch);
  const label =
    text.length * DIGIT <= width
      ? `<text x="${round(x + width / 2)}" y="${top(peer) + 17}" text-anchor="middle"${styleOf(action)}>${text}</text>`
      : '';
  const hint = `${formatAction(action)} on peer ${peer}: ${rounded(start, 4)} to ${rounded(end, 4)} s`;
  return `<g><title>${hint}</title><rect x="${x}" y="${top(peer)}" width="${width}" height="${ROW}" fill="${colour(action, peers, stages)}" stroke="#3a4250" stroke-width=".5"/>${label}</g>`;
}

/** Pieces of requests in the idle intervals, each from its beginning on. */
function piecesDrawn({ rows, pieces, pieceSeconds }: Served, scale: number): string[] {
  const { hue, lightness } = HUES.P;
  const look = `height="${ROW}" fill="hsl(${hue} 60% ${lightness}%)" stroke="#3a4250" stroke-width=".5"`;
  return rows.flatMap((row) => {
    const bars = pieces > MOST_PIECES ? 1 : row.pieces;
    const seconds = (row.pieces / bars) * pieceSeconds;
    return arrayOf(bars, (index) => {
      const start = row.start + index * seconds;
      const hint = `${counted(row.pieces / bars, 'piece')} of requests on peer ${row.peer}: ${rounded(start, 4)} to ${rounded(start + seconds, 4)} s`;
      return `<g><title>${hint}</title><rect x="${pixelsAt(start, scale)}" y="${top(row.peer)}" width="${round(seconds * scale)}" ${look}/></g>`;
    });
  });
}

const styleOf = ({ op }: MicroAction): string =>
  op === 'B' ? ' font-weight="700"' : op === 'R' ? ' font-style="italic"' : '';

/** A peer's later stages are darker. */
function colour({ op, stage }: MicroAction, peers: number, stages: number): string {
  const { hue, lightness } = HUES[op === 'F' || op === 'R' ? op : 'B'];
  const rounds = Math.max(1, Math.ceil(stages / peers));
  const darker = rounds === 1 ? 0 : (Math.floor(stage / peers) / (rounds - 1)) * 16;
  return `hsl(${hue} 60% ${round(lightness - darker)}%)`;
}

/** So that the label of most actions fits, within what a browser scrolls with ease. */
function pixelsPerSecond(makespanSeconds: number, bars: readonly Bar[]): number {
  if (makespanSeconds === 0) return 1;
  const lengths = bars.map(({ start, end }) => end - start).filter((length) => length > 0);
  const usual = lengths.sort((a, b) => a - b)[Math.floor(lengths.length / 4)] ?? makespanSeconds;
  const highest = bars.reduce((id, { action }) => Math.max(id, action.microBatch), 0);
  const wished = (String(highest).length * DIGIT + 4) / usual;
  return Math.min(MOST_WIDTH / makespanSeconds, Math.max(LEAST_WIDTH / makespanSeconds, wished));
}

/** Round times, some eight to the picture. */
function ticks(makespanSeconds: number): number[] {
  if (makespanSeconds === 0) return [0];
  const rough = makespanSeconds / 8;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  return arrayOf(Math.floor(makespanSeconds / step) + 1, (index) => index * step);
}

const round = (pixels: number): number => Math.round(pixels * 100) / 100;
const pixelsAt = (seconds: number, scale: number): number => round(LEFT + seconds * scale);
const top = (peer: number): number => TOP + peer * (ROW + GAP);
export const escapedXml = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
