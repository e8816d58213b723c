/**
 * Tells of alerts while nobody looks at the dashboard: each once when it begins and once when it is over, as one POST of
 * JSON to the address that the operator gave. What is an alert is decided where the dashboard's are (swarm/messages/alerts.ts).
 */

import { type Result, refusal, success } from '../../swarm/base.ts';
import { alertsOf, type Saved, savedAt } from '../../swarm/messages/alerts.ts';
import { monotonicMs, wallMs } from '../monitoring/clock.ts';
import type { Log } from '../monitoring/log.ts';
import type { ActiveRun } from '../run/run.ts';
import type { Store } from '../store/store.ts';
import { alertLimitsOf, eventOf, watchedSteps } from './source.ts';

const LOOK_MS = 5_000;
const POST_LIMIT_MS = 10_000;
const NEWEST_STEPS = 100;
const NEWEST_EVENTS = 200;

export interface Told {
  readonly run: string;
  readonly kind: string;
  readonly state: 'begins' | 'over' | 'trial';
  readonly step: number;
  readonly text: string;
}

/** Slack reads `text`, Discord `content`; both are the same sentence. */
const bodyOf = (told: Told): string => JSON.stringify({ ...told, text: sentenceOf(told), content: sentenceOf(told) });
const sentenceOf = ({ run, state, text }: Told): string => `Shoal, ${run}${state === 'over' ? ', over' : ''}: ${text}`;

/** Where it went wrong, why, in a sentence without the address: whoever knows that may write to it. */
async function post(url: string, told: Told): Promise<Result<null>> {
  try {
    const { ok, status } = await fetch(url, {
      ...{ method: 'POST', headers: { 'content-type': 'application/json' }, body: bodyOf(told) },
      // Where it leads was not what the operator gave.
      ...{ redirect: 'manual', signal: AbortSignal.timeout(POST_LIMIT_MS) },
    });
    if (ok) return success(null);
    return refusal(
      status >= 300 && status < 400
        ? `the address redirects elsewhere (${status}), where alerts are not sent`
        : `the address answered with status ${status}`,
    );
  } catch (error) {
    return refusal(faultOf(error));
  }
}

/** What fetch says of itself quotes the address. */
function faultOf(error: unknown): string {
  if (error instanceof Error && error.name === 'TimeoutError')
    return `the address does not answer in ${POST_LIMIT_MS / 1_000} s`;
  const cause = error instanceof Error ? error.cause : null;
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : null;
  if (code === null) return 'the address cannot be called';
  return code === 'ECONNREFUSED'
    ? `the address refused the connection (${code})`
    : `the address cannot be reached (${code})`;
}

export class AlertWatch {
  readonly #run: ActiveRun;
  readonly #store: Store;
  readonly #freeBytes: () => number | null;
  readonly #log: Log;
  readonly #timer: ReturnType<typeof setInterval>;
  #saved: Saved | null = null;
  #moved = { key: '', atMs: monotonicMs() };
  /** Alerts whose beginning was told and whose end was not, with their newest text. */
  readonly #known = new Map<string, string>();
  #looking: Promise<void> | null = null;
  /** Why the newest was not told; null: it was. */
  #fault: string | null = null;

  constructor(run: ActiveRun, store: Store, freeBytes: () => number | null, log: Log) {
    this.#run = run;
    this.#store = store;
    this.#freeBytes = freeBytes;
    this.#log = log;
    this.#timer = setInterval(() => void this.look(), LOOK_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Tells what began and what is over since it was told; what cannot be told waits for the next look. One at a time. */
  look(nowMs: number = monotonicMs()): Promise<void> {
    this.#looking ??= this.#lookOnce(nowMs).finally(() => {
      this.#looking = null;
    });
    return this.#looking;
  }

  async #lookOnce(nowMs: number): Promise<void> {
    const url = this.#store.webhook();
    if (url === null) return;
    const found = new Map(this.#alerts(nowMs).map(({ kind, text }) => [kind as string, text]));
    const [run, step] = [this.#run.name, this.#run.committedSteps];
    const begun = [...found].filter(([kind]) => !this.#known.has(kind));
    const over = [...this.#known].filter(([kind]) => !found.has(kind));
    for (const [kind, text] of found) if (this.#known.has(kind)) this.#known.set(kind, text);
    for (const [state, all] of [
      ['begins', begun],
      ['over', over],
    ] as const)
      for (const [kind, text] of all) {
        const told = await post(url, { run, kind, state, step, text });
        // Said once, however often it is tried.
        if (!told.ok && told.reason !== this.#fault) this.#log('warn', `an alert was not told: ${told.reason}`);
        this.#fault = told.ok ? null : told.reason;
        if (!told.ok) continue;
        if (state === 'begins') this.#known.set(kind, text);
        else this.#known.delete(kind);
      }
  }

  async try(): Promise<Result<null>> {
    const url = this.#store.webhook();
    if (url === null) return refusal('no address is kept: save one first');
    const text = 'This is a trial. Alerts of this run come here.';
    return post(url, { run: this.#run.name, kind: 'trial', state: 'trial', step: this.#run.committedSteps, text });
  }

  #alerts(nowMs: number) {
    const [run, store] = [this.#run, this.#store];
    const snapshot = run.snapshot();
    const key = `${snapshot.phase} ${snapshot.committedSteps}`;
    if (key !== this.#moved.key) this.#moved = { key, atMs: nowMs };
    const events = store.history(run.name, 0, NEWEST_EVENTS).flatMap(eventOf);
    this.#saved = savedAt(this.#saved, run.name, events, { wallMs: wallMs(), monotonicMs: nowMs });
    return alertsOf({
      ...{ snapshot, events, limits: alertLimitsOf(store, run.name), freeBytes: this.#freeBytes() },
      curve: watchedSteps(run, store, Math.max(0, snapshot.committedSteps - NEWEST_STEPS)),
      stillMs: nowMs - this.#moved.atMs,
      savedMs: nowMs - this.#saved.atMs,
    });
  }
}
