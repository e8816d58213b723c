/**
 * What this browser keeps for the next visit: settings, credit, and what was moved today. The credit is read anew
 * before it is added to, because another tab may have written meanwhile.
 */

import { wallMs } from '../page/clock.ts';
import { type DayTraffic, dayOf, dayTrafficOf, NO_TRAFFIC } from './conditions.ts';
import { type Credit, credited, creditOf, creditText, NO_CREDIT } from './credit.ts';
import { type Settings, settingsOf, settingsText } from './preferences.ts';
import { contributedTokens, type DonorState } from './state.ts';

const SETTINGS = 'shoal.settings';
const CREDIT = 'shoal.credit';
const KEY = 'shoal.key';
const TODAY = 'shoal.today';

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

export class Keeper {
  readonly settings: Settings = settingsOf(read(SETTINGS));
  readonly #onCredit: (credit: Credit) => void;
  readonly #onToday: (today: DayTraffic) => void;
  /** As it was last written. */
  #today: DayTraffic = NO_TRAFFIC;
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
    if (after.today !== before.today && after.today.day !== '') this.#keepToday(after.today);
  }

  forgetCredit(): void {
    write(CREDIT, null);
    this.#onCredit(NO_CREDIT);
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
    write(TODAY, JSON.stringify(this.#today));
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
    const runTokens = snapshot.committedSteps * run.stepTokens;
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
