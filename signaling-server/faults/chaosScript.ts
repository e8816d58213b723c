/**
 * The script of `shoal swarm --chaos`: which fault happens to whom during which step. `kill:2@5,join@9` reads: donor 2's
 * tab dies during step 5, a donor joins at step 9. Donors are numbered in the order they are opened, joiners next.
 */
import { type Result, refusal, success } from '../../swarm/base.ts';
import { LEAST_SPEED } from '../../swarm/limits.ts';

/** What a donor that lies does to its tensors. */
const TAMPER_FAULTS = ['nan', 'lie', 'stale'] as const;
const DONOR_FAULTS = ['kill', 'gpu-lost', ...TAMPER_FAULTS, 'mute', 'leave'] as const;
const PASSING_FAULTS = ['freeze', 'cut'] as const;

export type TamperFault = (typeof TAMPER_FAULTS)[number];

export const isTamperFault = (kind: string): kind is TamperFault => TAMPER_FAULTS.some((one) => one === kind);

type ChaosFault =
  | { readonly kind: (typeof DONOR_FAULTS)[number]; readonly donor: number }
  | { readonly kind: (typeof PASSING_FAULTS)[number]; readonly donor: number; readonly seconds: number }
  /** From then on its GPU work takes so many times as long. */
  | { readonly kind: 'slow'; readonly donor: number; readonly factor: number }
  | { readonly kind: 'join' | 'server-kill' };

export type ChaosEntry = ChaosFault & {
  /** As it stands in the script. */
  readonly text: string;
  /** Sent when this step, or a later one, is first announced. */
  readonly step: number;
};

const MOST_SLOWER = 1 / LEAST_SPEED;
/** A frozen browser is not to outlast the run by more than this. */
const MOST_SECONDS = 3_600;

/** Kind, donor, step, seconds, times. */
const ENTRY = /^([a-z-]+)(?::(\d{1,6}))?@(\d{1,9})(?:\+(\d{1,6}(?:\.\d{1,3})?)s|\*(\d{1,6}(?:\.\d{1,3})?))?$/;

const EXPECTED = [
  ...DONOR_FAULTS.map((kind) => `${kind}:DONOR@STEP`),
  ...PASSING_FAULTS.map((kind) => `${kind}:DONOR@STEP+SECONDSs`),
  'slow:DONOR@STEP*TIMES',
  'join@STEP or server-kill@STEP, with commas between',
].join(', ');

/** `donors`: how many are opened at the start. */
export function parseChaosScript(script: string, donors: number): Result<ChaosEntry[]> {
  const entries: ChaosEntry[] = [];
  for (const text of script.split(',').map((part) => part.trim())) {
    const entry = parseEntry(text);
    if (entry === null) return refusal(`--chaos "${text}" is not understood: expected ${EXPECTED}`);
    const fault = quantityFault(entry);
    if (fault !== null) return refusal(`--chaos ${text}: ${fault}`);
    entries.push(entry);
  }
  const most = donors + entries.filter(({ kind }) => kind === 'join').length;
  for (const entry of entries) {
    if ('donor' in entry && entry.donor >= most)
      return refusal(`--chaos ${entry.text}: there is no donor ${entry.donor}, expected 0 to ${most - 1}`);
  }
  return success(entries);
}

function parseEntry(text: string): ChaosEntry | null {
  const match = ENTRY.exec(text);
  if (match === null) return null;
  const [, kind, donorText, stepText, seconds, factor] = match;
  const common = { text, step: Number(stepText) };
  const isPlain = seconds === undefined && factor === undefined;
  if (donorText === undefined)
    return isPlain && (kind === 'join' || kind === 'server-kill') ? { kind, ...common } : null;
  const donor = Number(donorText);
  const fault = DONOR_FAULTS.find((one) => one === kind);
  if (fault !== undefined) return isPlain ? { kind: fault, donor, ...common } : null;
  const passing = PASSING_FAULTS.find((one) => one === kind);
  if (passing !== undefined && seconds !== undefined)
    return { kind: passing, donor, seconds: Number(seconds), ...common };
  if (kind === 'slow' && factor !== undefined) return { kind, donor, factor: Number(factor), ...common };
  return null;
}

function quantityFault(entry: ChaosEntry): string | null {
  if ('seconds' in entry && (entry.seconds === 0 || entry.seconds > MOST_SECONDS))
    return `expected more than 0 s, at most ${MOST_SECONDS} s`;
  if ('factor' in entry && (entry.factor < 1 || entry.factor > MOST_SLOWER))
    return `expected 1 to ${MOST_SLOWER} times, since a donor gives a share of ${LEAST_SPEED} of its GPU's time at least`;
  return null;
}
