/**
 * What this browser keeps for the next visit: settings, credit, and what was moved today. The credit is read anew
 * before it is added to, because another tab may have written meanwhile.
 */
import type { RefusalReason } from '../../../swarm/messages/refusals.ts';
import type { WorkerFailure } from '../executor/protocol.ts';
import { wallMs } from '../page/clock.ts';
import { type DayTraffic, dayOf, dayTrafficOf, keptText, NO_TRAFFIC } from './conditions.ts';
import { type Credit, credited, creditOf, creditText, NO_CREDIT } from './credit.ts';
import { type Proof, proofOf, proofText } from './download.ts';
import { type Settings, settingsOf, settingsText } from './preferences.ts';
import { contributedTokens, type DonorState } from './state.ts';

const SETTINGS = 'shoal.settings';
const CREDIT = 'shoal.credit';
const KEY = 'shoal.key';
const TODAY = 'shoal.today';
const PROOF = 'shoal.proof';
const CHECKED = 'shoal.checked';

function read(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null; // a browser that keeps nothing
  }
}

function write(key: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(key);
    else localStorage.setItem(key, value);
  } catch {
    // as above
  }
}

/**
 * A random name of this browser, by which the server finds what it measured on its last visit. It says nothing of the
 * person, goes to this server alone, and is forgotten with the rest of what the browser keeps; null: it keeps nothing.
 */
export const knownKey = (): string | null => read(KEY);
export function donorKey(): string | null {
  if (read(KEY) === null) write(KEY, crypto.randomUUID());
  return read(KEY);
}

/** Which kernels were compared with their references on this GPU, and were right; null: none counts any more. */
export const keptChecks = (): string | null => read(CHECKED);
export const keepChecks = (checks: string | null): void => write(CHECKED, checks);

const DOUBTFUL: ReadonlySet<string> = new Set<WorkerFailure | RefusalReason>([
  ...(['deviceLost', 'wrongGpu', 'faulty', 'convicted'] as const),
]);
/** Whether what ended this tab's work casts doubt on its GPU, so that it is checked anew. */
export const isInDoubt = (reason: WorkerFailure | RefusalReason): boolean => DOUBTFUL.has(reason);

/** That a tab of this browser had a part in this run. */
export const keptProof = (run: string): Proof | null => proofOf(read(PROOF), run);

export class Keeper {
  readonly settings: Settings = settingsOf(read(SETTINGS));
  readonly #onCredit: (credit: Credit) => void;
  readonly #onToday: (today: DayTraffic) => void;
  /** As it was last written. */
  #today: DayTraffic = NO_TRAFFIC;
  /** As it was last written. */
  #proof: Proof | null = null;
  #visit = 0;
  #run: string | null = null;
  /** Of this visit, in the record already. */
  #countedTokens = 0;
  #runTokens = 0;

  constructor(onCredit: (credit: Credit) => void, onToday: (today: DayTraffic) => void) {
    this.#onCredit = onCredit;
    this.#onToday = onToday;
  }

  get credit(): Credit {
    return creditOf(read(CREDIT));
  }

  /** Every state that is shown. */
  see(before: DonorState, after: DonorState): void {
    const { limits, preferences } = after;
    if (limits !== before.limits || preferences !== before.preferences) {
      write(SETTINGS, settingsText({ limits, preferences }));
    }
    this.#count(after);
    const { proof } = after;
    if (proof !== null && proof !== this.#proof && contributedTokens(after) > 0) {
      this.#proof = proof;
      write(PROOF, proofText(proof));
    }
    if (after.today !== before.today && after.today.day !== '') this.#keepToday(after.today);
  }

  forgetCredit(): void {
    write(CREDIT, null);
    write(PROOF, null);
    this.#onCredit(NO_CREDIT);
  }

  /** What was moved on this day as far as it is kept: of a day that begins, or that a clock was set back to. */
  usedOn(day: string): DayTraffic {
    if (day !== this.#today.day) this.#today = dayTrafficOf(read(TODAY), day);
    return this.#today;
  }

  /** Another tab may have written meanwhile: what is new here is added to what stands there. */
  #keepToday(today: DayTraffic): void {
    const isSameDay = today.day === this.#today.day;
    const stored = dayTrafficOf(read(TODAY), today.day);
    const added = (part: 'sentBytes' | 'receivedBytes'): number =>
      Math.max(0, today[part] - (isSameDay ? this.#today[part] : 0));
    this.#today = {
      day: today.day,
      sentBytes: stored.sentBytes + added('sentBytes'),
      receivedBytes: stored.receivedBytes + added('receivedBytes'),
    };
    write(TODAY, keptText(read(TODAY), this.#today));
    const { sentBytes, receivedBytes } = this.#today;
    if (sentBytes !== today.sentBytes || receivedBytes !== today.receivedBytes) this.#onToday(this.#today);
  }

  #count(state: DonorState): void {
    const { run, snapshot } = state;
    // What is counted is of one run: the next one begins with none, in the same visit too.
    if (state.visit !== this.#visit || (run !== null && run.name !== this.#run)) {
      this.#visit = state.visit;
      this.#run = run?.name ?? null;
      this.#countedTokens = 0;
    }
    const all = contributedTokens(state);
    const tokens = all - this.#countedTokens;
    if (!run || !snapshot) return;
    const runTokens = snapshot.committedSteps * run.stepTargets;
    // A share falls while others go on; who gave nothing has no entry.
    if (tokens === 0 && (all === 0 || runTokens === this.#runTokens)) return;
    this.#countedTokens = all;
    this.#runTokens = runTokens;
    const day = dayOf(new Date(wallMs()));
    const credit = credited(this.credit, { run: run.name, tokens, runTokens, day });
    write(CREDIT, creditText(credit));
    this.#onCredit(credit);
  }
}
