/**
 * The script of `shoal swarm --chaos`: which fault happens to whom during which step. `kill:2@5,join@9` reads: donor 2's
 * tab dies during step 5, a donor joins at step 9. Donors are numbered in the order they are opened, joiners next.
 */
import { type Result, refusal, success } from '../../swarm/base.ts';

const DONOR_FAULTS = ['kill', 'gpu-lost', 'nan', 'mute'] as const;
type DonorFault = (typeof DONOR_FAULTS)[number];

type ChaosFault = { readonly kind: DonorFault; readonly donor: number } | { readonly kind: 'join' | 'server-kill' };

export type ChaosEntry = ChaosFault & {
  /** As it stands in the script. */
  readonly text: string;
  /** Sent when this step, or a later one, is first announced. */
  readonly step: number;
};

const EXPECTED = `expected ${DONOR_FAULTS.map((kind) => `${kind}:DONOR@STEP`).join(', ')}, join@STEP or server-kill@STEP, with commas between`;
const FREEZE = /^freeze:\d+@\d+\+\d+(\.\d+)?s$/;

/** `donors`: how many are opened at the start. */
export function parseChaosScript(script: string, donors: number): Result<ChaosEntry[]> {
  const entries: ChaosEntry[] = [];
  for (const text of script.split(',').map((part) => part.trim())) {
    if (FREEZE.test(text)) return refusal(`--chaos ${text}: freeze comes with a later version of shoal`);
    const entry = parseEntry(text);
    if (entry === null) return refusal(`--chaos "${text}" is not understood: ${EXPECTED}`);
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
  const match = /^([a-z-]+)(?::(\d{1,6}))?@(\d{1,9})$/.exec(text);
  if (match === null) return null;
  const [, kind, donor] = match;
  const step = Number(match[3]);
  const fault = DONOR_FAULTS.find((one) => one === kind);
  if (fault !== undefined && donor !== undefined) return { kind: fault, donor: Number(donor), text, step };
  if ((kind === 'join' || kind === 'server-kill') && donor === undefined) return { kind, text, step };
  return null;
}
