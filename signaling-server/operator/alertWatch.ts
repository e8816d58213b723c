/**
 * Tells of alerts while nobody looks at the dashboard: each once when it begins and once when it is over, as one POST of
 * JSON to the address that the operator gave. What is an alert is decided where the dashboard's are (swarm/messages/alerts.ts).
 */
import { z } from 'zod';
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

interface Told {
  readonly run: string;
  readonly kind: string;
  readonly state: 'begins' | 'over' | 'trial';
  readonly step: number;
  readonly text: string;
}

/** An alert whose beginning was told and whose end was not, with its newest text. */
const begunSchema = z.array(z.object({ run: z.string(), kind: z.string(), text: z.string() }));
type Begun = z.infer<typeof begunSchema>[number];

/** Slack reads `text`, Discord `content`; both are the same sentence. */
const bodyOf = (told: Told): string => JSON.stringify({ ...told, text: sentenceOf(told), content: sentenceOf(told) });
const sentenceOf = ({ run, state, text }: Told): string => `Shoal, ${run}${state === 'over' ? ', over' : ''}: ${text}`;

const isSame = (a: Begun, b: Begun): boolean => a.run === b.run && a.kind === b.kind;

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
  /** Kept: whoever serves the run next tells their ends. */
  #begun: readonly Begun[];
  #isKept = true;
  /** What was begun before this server was; null: nothing is left of it. Here it is over when the run has moved since. */
  #before: { readonly begun: readonly Begun[]; readonly run: string; readonly step: number } | null;
  #looking: Promise<void> | null = null;
  /** Why the newest was not told; null: it was. */
  #fault: string | null = null;

  constructor(run: ActiveRun, store: Store, freeBytes: () => number | null, log: Log) {
    this.#run = run;
    this.#store = store;
    this.#freeBytes = freeBytes;
    this.#log = log;
    this.#begun = begunSchema.parse(JSON.parse(store.setting('toldAlerts') ?? '[]'));
    this.#before = { begun: this.#begun, run: run.name, step: run.committedSteps };
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
    const url = this.#store.setting('webhook');
    if (!url) return;
    if (!this.#isKept) this.#keep(this.#begun);
    const [run, step] = [this.#run.name, this.#run.committedSteps];
    const found = this.#alerts(nowMs).map(({ kind, text }): Begun => ({ run, kind, text }));
    const isOf = (all: readonly Begun[]) => (one: Begun) => all.some((each) => isSame(one, each));
    const begins = found.filter((one) => !isOf(this.#begun)(one));
    if (this.#before && (run !== this.#before.run || step !== this.#before.step)) this.#before = null;
    const waiting = this.#before?.begun ?? [];
    const over = this.#begun.filter((one) => !isOf(found)(one) && !isOf(waiting)(one));
    this.#begun = this.#begun.map((one) => found.find((each) => isSame(one, each)) ?? one);
    for (const one of begins)
      if (await this.#tells(url, { ...one, state: 'begins', step })) this.#keep([...this.#begun, one]);
    for (const one of over)
      if (await this.#tells(url, { ...one, state: 'over', step }))
        this.#keep(this.#begun.filter((each) => !isSame(one, each)));
  }

  #keep(begun: readonly Begun[]): void {
    this.#begun = begun;
    this.#isKept = false;
    try {
      this.#store.saveSetting('toldAlerts', JSON.stringify(begun));
      this.#isKept = true;
    } catch {
      // A disk that takes nothing may be what the alert is about: it is tried again at the next look.
    }
  }

  async #tells(url: string, alert: Told): Promise<boolean> {
    const told = await post(url, alert);
    // Said once, however often it is tried.
    if (!told.ok && told.reason !== this.#fault) this.#log('warn', `an alert was not told: ${told.reason}`);
    this.#fault = told.ok ? null : told.reason;
    return told.ok;
  }

  async try(): Promise<Result<null>> {
    const url = this.#store.setting('webhook');
    if (!url) return refusal('no address is kept: save one first');
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
