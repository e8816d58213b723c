/**
 * What a donor is willing to give: the real controls of its page, which the planner and the other donors see as the
 * peer's size. One text for each place: `--donor` of the command line (with units), and the fragment of the page's link
 * (plain numbers). See SPEC.md, LI3 and LI6.
 */
import { z } from 'zod';
import { type Result, refusal, success } from './base.ts';

/** The least share of the GPU's time: below it a step would outlast every deadline. */
export const LEAST_SPEED = 0.05;
/** The least rate: a frame of 64 KiB then takes about six seconds. */
export const LEAST_BYTES_PER_SECOND = 10_000;
export const LEAST_MEMORY_BYTES = 1_048_576;
/** Past what any machine has: sums and products of limits stay finite. */
const MOST_BYTES_PER_SECOND = 1e15;
const MOST_MEMORY_BYTES = 2 ** 50;

/**
 * A donor that gives a share of its GPU's time, and had nothing to do for a while, catches up on so much: late timers and
 * late commits cost nothing, and the share holds over any few seconds.
 */
export const SLACK_SECONDS = 0.3;

const rate = z.number().min(LEAST_BYTES_PER_SECOND).max(MOST_BYTES_PER_SECOND);
export const limitsSchema = z.object({
  /** Share of the GPU's time, 1: all of it. */
  speed: z.number().min(LEAST_SPEED).max(1),
  /** Of the GPU, for everything that a plan makes this peer keep; null: what can be had. */
  memoryBytes: z.int().min(LEAST_MEMORY_BYTES).max(MOST_MEMORY_BYTES).nullable(),
  /** Of main memory, for shards that its GPU has no room for. */
  hostBytes: z.int().min(0).max(MOST_MEMORY_BYTES).default(0),
  uploadBytesPerSecond: rate.nullable(),
  downloadBytesPerSecond: rate.nullable(),
});
export type Limits = Readonly<z.infer<typeof limitsSchema>>;

export const NO_LIMITS: Limits = {
  speed: 1,
  memoryBytes: null,
  hostBytes: 0,
  uploadBytesPerSecond: null,
  downloadBytesPerSecond: null,
};

const NAMES = {
  speed: 'speed',
  memory: 'memoryBytes',
  host: 'hostBytes',
  upload: 'uploadBytesPerSecond',
  download: 'downloadBytesPerSecond',
} as const;
type Name = keyof typeof NAMES;
const isName = (text: string): text is Name => text in NAMES;

/** `speed=0.5&memory=268435456`: only what is limited. */
export function limitsFragment(limits: Limits): string {
  const said = Object.entries(NAMES).filter(([, field]) => limits[field] !== NO_LIMITS[field]);
  return said.map(([name, field]) => `${name}=${limits[field]}`).join('&');
}

/** From a link's fragment; what is no limit there is passed over: the page shows which ones hold. */
export function limitsOfFragment(fragment: string): Limits {
  const said = new URLSearchParams(fragment);
  let limits = NO_LIMITS;
  for (const [name, field] of Object.entries(NAMES)) {
    const text = said.get(name);
    const parsed = limitsSchema.safeParse({ ...limits, [field]: text === null || text === '' ? null : Number(text) });
    if (text !== null && parsed.success) limits = parsed.data;
  }
  return limits;
}

const UNITS: Readonly<Record<string, number>> = {
  B: 1,
  kB: 1e3,
  MB: 1e6,
  GB: 1e9,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
};
const UNIT_NAMES = 'B, kB, MB, GB, KiB, MiB or GiB';

/** Those that a headless donor can be opened in. */
export const BROWSER_NAMES = ['chromium', 'firefox'] as const;
export type BrowserName = (typeof BROWSER_NAMES)[number];
export const isBrowserName = (text: string): text is BrowserName => BROWSER_NAMES.some((name) => name === text);
export const browserTitle = (name: BrowserName): string => ({ chromium: 'Chromium', firefox: 'Firefox' })[name];

export interface DonorSpec {
  /** Null: it does not say. */
  readonly browser: BrowserName | null;
  readonly limits: Limits;
  /** It is one of the operator's own, who alone have the first and last stage where `trust.ends` is "own". */
  readonly isOwn: boolean;
}

/** `own,browser=firefox,speed=0.5,memory=256MiB,host=1GiB,upload=2MB/s,download=8MB/s`, each part optional. */
export function parseDonorSpec(text: string): Result<DonorSpec> {
  let limits = NO_LIMITS;
  let browser: DonorSpec['browser'] = null;
  let isOwn = false;
  const seen = new Set<string>();
  for (const part of text.split(',').filter((piece) => piece !== '')) {
    const [name = '', value, ...more] = part.split('=');
    if (part === 'own' && !isOwn) {
      isOwn = true;
      continue;
    }
    if (value === undefined || more.length > 0) return refusal(`"${part}": expected own or name=value`);
    if (seen.has(name)) return refusal(`${name} is given twice`);
    seen.add(name);
    if (name === 'browser') {
      if (!isBrowserName(value))
        return refusal(`browser "${value}" is unknown: expected ${BROWSER_NAMES.join(' or ')}`);
      browser = value;
      continue;
    }
    if (!isName(name)) return refusal(`"${name}" is unknown: expected own, browser, ${Object.keys(NAMES).join(', ')}`);
    const number = quantity(name, value);
    if (!number.ok) return number;
    limits = { ...limits, [NAMES[name]]: number.value };
  }
  return success({ browser, limits, isOwn });
}

const RATES = 'at least 10kB/s, at most 1000000GB/s';
const RANGES = {
  memory: 'at least 1MiB, at most 1048576GiB',
  host: 'at most 1048576GiB',
  upload: RATES,
  download: RATES,
} as const;

function quantity(name: Name, text: string): Result<number> {
  const field = NAMES[name];
  const rate = field.endsWith('PerSecond');
  const expected =
    name === 'speed'
      ? `a number from ${LEAST_SPEED} to 1`
      : `a number of ${UNIT_NAMES}${rate ? ' a second, as in 2MB/s' : ''}`;
  const pattern = name === 'speed' ? /^([\d.]+)()$/ : rate ? /^([\d.]+)(\w+)\/s$/ : /^([\d.]+)(\w+)$/;
  const [, digits = '', unit = ''] = pattern.exec(text) ?? [];
  const value = Number(digits) * (name === 'speed' ? 1 : (UNITS[unit] ?? Number.NaN));
  if (digits === '' || !Number.isFinite(value)) return refusal(`${name} "${text}": expected ${expected}`);
  const whole = name === 'speed' ? value : Math.floor(value);
  if (limitsSchema.shape[field].safeParse(whole).success) return success(whole);
  return refusal(`${name} "${text}": expected ${name === 'speed' ? expected : RANGES[name]}`);
}
