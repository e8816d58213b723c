/** Numbers as people read them: grouped, with units, of steady width. */
import type { AdapterProfile, Route } from '../../../swarm/messages/profile.ts';
import type { Compute } from '../../../swarm/precision.ts';
import { counted, groupedText } from '../../../swarm/quantityText.ts';

const INTEGER = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const COMPACT = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });
/** Of steady width: 1.30M beside 1.31M. */
const LARGE = new Intl.NumberFormat('en', {
  notation: 'compact',
  minimumSignificantDigits: 3,
  maximumSignificantDigits: 3,
});
const ABOUT = new Intl.NumberFormat('en', { notation: 'compact', compactDisplay: 'long', maximumSignificantDigits: 2 });
/** Where there is no number yet. */
export const NOTHING = '–';

/** 12,345 and 1.23M: exact while it is short. */
export function countText(value: number): string {
  return value < 1_000_000 ? INTEGER.format(value) : LARGE.format(value);
}

/** `25 thousand`: enough to know how large it is. */
export const aboutText = (value: number): string => ABOUT.format(value);

export function lossText(loss: number | null): string {
  return loss === null ? NOTHING : loss.toFixed(loss < 100 ? 3 : 0);
}

/** Without its unit, which is too long to stand beside the number. */
export function rateText(tokensPerSecond: number | null): string {
  return tokensPerSecond === null ? NOTHING : COMPACT.format(tokensPerSecond);
}

/** What a donor keeps its activations and weights in while it computes. */
export const precisionText = (compute: Compute): string => (compute === 'f16' ? 'in halves (f16)' : 'in f32');

/** The driver's own word for the GPU where the browser tells it. */
export function adapterText({
  description,
  vendor,
  architecture,
}: Pick<AdapterProfile, 'description' | 'vendor' | 'architecture'>): string {
  return description || [vendor, architecture].filter(Boolean).join(' ') || 'a GPU that the browser does not name';
}

/** Name and version out of what a browser says of itself; whatever else it says, as it says it. */
export function browserText(userAgent: string): string {
  // Edge and Opera call themselves Chrome as well, and all of them Safari.
  const [, name, version] =
    /(Edg|OPR)\/(\d+)/.exec(userAgent) ?? /(Firefox|HeadlessChrome|Chrome|Version)\/(\d+)/.exec(userAgent) ?? [];
  if (name === undefined) return userAgent;
  const names: Readonly<Record<string, string>> = {
    Edg: 'Edge',
    OPR: 'Opera',
    Version: 'Safari',
    HeadlessChrome: 'Chrome (headless)',
  };
  return `${names[name] ?? name} ${version}`;
}

/** Of an island in its round: `4 of 6 steps`, or `4 steps` where it does as many as the round's time allows. */
export const innerStepsText = (done: { readonly innerStep: number; readonly innerSteps: number | null }): string =>
  done.innerSteps === null
    ? counted(done.innerStep, 'step')
    : `${groupedText(done.innerStep)} of ${counted(done.innerSteps, 'step')}`;

/** Enough of an id to tell donors apart. */

export const millisecondsText = (ms: number | null): string =>
  ms === null ? NOTHING : `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;

/** Decimal units, as networks are sold. */
export function byteRateText(bytesPerSecond: number | null): string {
  if (bytesPerSecond === null) return NOTHING;
  const megabytes = bytesPerSecond / 1e6;
  return megabytes < 0.1 ? `${Math.max(1, Math.round(megabytes * 1e3))} kB/s` : `${megabytes.toFixed(1)} MB/s`;
}

/** Of one: `23 %`, `0.4 %`. */
export const percentText = (share: number | null): string =>
  share === null ? NOTHING : `${share > 0 && share < 0.0995 ? (share * 100).toFixed(1) : Math.round(share * 100)} %`;

/** A time of day, as the person's own clocks have it. */
export const timeText = (atMs: number): string =>
  new Date(atMs).toLocaleTimeString(undefined, { hour: 'numeric', minute: '2-digit' });

/** Of what a page shows of a run whose server does not answer. */
export const seenText = (seenAtMs: number | null): string =>
  `This is how the run was ${seenAtMs === null ? 'last seen' : `at ${timeText(seenAtMs)}`}.`;

/** Decimal units, as traffic is counted. */
export function trafficText(bytes: number): string {
  const units = ['kB', 'MB', 'GB'];
  let value = bytes / 1e3;
  let unit = 0;
  for (; value >= 999.5 && unit < units.length - 1; unit++) value /= 1e3;
  return `${value.toFixed(value < 9.95 ? 1 : 0)} ${units[unit]}`;
}

export const ROUTES = {
  direct: { tone: 'good', glyph: '●', word: 'direct' },
  relayed: { tone: 'wait', glyph: '↑', word: 'relayed' },
} as const satisfies Record<Route, unknown>;
