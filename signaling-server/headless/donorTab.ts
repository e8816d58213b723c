/**
 * A headless browser with one tab, as who opens donors needs it: which browser it is, and by which library it is driven, is
 * known in chromium.ts and firefox.ts alone. What is run in the page knows nothing but what is in it.
 */
import { type BrowserName, browserTitle } from '../../swarm/limits.ts';
import type { ChaosEntry } from '../faults/chaosScript.ts';

/** How often a page is asked for its state: one that is asked at each frame draws them all, and four tabs share two cores. */
export const POLL_MS = 100;

export interface DonorTab {
  readonly browserPid: number;
  /** Resolves when the tab is no more, with the reason. */
  readonly ended: Promise<string>;
  goto(url: string, timeoutMs: number): Promise<void>;
  /** A button by its whole name. */
  press(button: string, timeoutMs: number): Promise<void>;
  evaluate<T, Given>(work: (given: Given) => T | Promise<T>, given: Given): Promise<T>;
  /** The same in its worker, once that runs. */
  evaluateInWorker<T, Given>(work: (given: Given) => T | Promise<T>, given: Given): Promise<T>;
  /** Resolves when it holds; rejects after `timeoutMs`, 0: never. */
  waitFor<Given>(holds: (given: Given) => boolean, given: Given, timeoutMs: number): Promise<void>;
  /** A function of the page that calls this one. */
  expose(name: string, call: (given: string) => void): Promise<void>;
  /** Once its worker runs. */
  processes(): Promise<TabProcesses>;
  /** Null: this browser cannot have it crash alone. */
  readonly crashGpuProcess: (() => void) | null;
  close(): Promise<void>;
}

/** Null where there is none that is this tab's, or its browser's, alone. */
export interface TabProcesses {
  /** Page and worker of the donor's tab. */
  readonly renderer: number | null;
  /** Every socket of the browser is its: WebSockets, HTTP, and the UDP of data channels. */
  readonly network: number | null;
}

/** What cannot be done to a donor in this browser, and why. */
const CANNOT: Readonly<Record<BrowserName, Partial<Record<ChaosEntry['kind'], string>>>> = {
  chromium: {},
  firefox: {
    'gpu-lost': 'its GPU work is done in the process of the whole browser',
    cut: 'its connections are held by the process of the whole browser',
  },
};

/** The first entry that cannot be done to its donor, in a sentence; null: all can. `browserOf`: by the donor's number. */
export function impossibleFault(
  entries: readonly ChaosEntry[],
  browserOf: (donor: number) => BrowserName,
): string | null {
  for (const entry of entries) {
    if (!('donor' in entry)) continue;
    const browser = browserOf(entry.donor);
    const reason = CANNOT[browser][entry.kind];
    if (reason === undefined) continue;
    const what = `--chaos ${entry.text}: donor ${entry.donor} is a ${browserTitle(browser)}`;
    return `${what}, to which this cannot be done: ${reason}; do it to a donor in Chromium`;
  }
  return null;
}
