/**
 * The shell around a donor's state: owns the worker and what of its talk with others is the page's, and pumps between
 * them. It decides nothing but when to start over. No timer of the page matters here: waiting is the worker's.
 */
import { LEAST_SPEED, type Limits } from '../../../swarm/limits.ts';
import { todayPlaceSchema } from '../../../swarm/messages/leaderboard.ts';
import type { PeerMessage, ServerMessage } from '../../../swarm/messages/messages.ts';
import type { AdapterProfile, MeasuredLinks } from '../../../swarm/messages/profile.ts';
import { publicStatusSchema } from '../../../swarm/messages/publicStatus.ts';
import type { DonorPage, DonorStatus, WorkerFailure } from '../executor/protocol.ts';
import type { Entry, SignalingState } from '../net/signaling.ts';
import { ask, UNREACHABLE } from '../page/ask.ts';
import { monotonicMs, thisMoment, wallMs } from '../page/clock.ts';
import type { Live } from '../page/live.ts';
import { DonorBridge } from '../worker/bridge.ts';
import { type DayTraffic, isNearlyUsedUp, type Surroundings } from './conditions.ts';
import type { Conversation } from './conversation.ts';
import { placeSentence } from './credit.ts';
import { download } from './download.ts';
import type { DonorEvent } from './events.ts';
import { nextTrouble, restartPauseMs, slept, type Trouble, withoutUnit } from './incidents.ts';
import { donorKey, isInDoubt, keepChecks, keptChecks } from './keeper.ts';
import { isMember, mayDonate } from './phase.ts';
import type { Preferences } from './preferences.ts';
import { type DonorState, due, isBarred, type Rest } from './state.ts';

/** Between two looks at whether this computer has slept. */
const SLEEP_LOOK_MS = 1_000;
/** How often a snooze looks whether it is over or was ended: one long timer may come late after a sleep. */
const SNOOZE_LOOK_MS = 5_000;
const COUNT_MS = 1_000;
/** Between two looks for a server that was gone before this tab had begun. */
const GONE_PAUSE_MS = 3_000;

export class Donor implements DonorPage {
  readonly #live: Live<DonorState, DonorEvent>;
  readonly #entry: Entry;
  #bridge: DonorBridge | null = null;
  #conversation: Conversation | null = null;
  #trouble: Trouble | null = null;
  /** Until this tab asks again after a refusal. */
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  /** Bearer of this donor's calls, while it is one. */
  #token: string | null = null;

  constructor(live: Live<DonorState, DonorEvent>, entry: Entry) {
    this.#live = live;
    this.#entry = entry;
  }

  // What a person can press.

  donate(): void {
    if (!mayDonate(this.#live.current) || isBarred(this.#live.current)) return;
    this.#trouble = null;
    this.#live.dispatch({ type: 'donateClicked' });
    void this.#start();
  }

  ask(what: 'pause' | 'resume' | 'leave'): void {
    const { phase } = this.#live.current;
    if (what === 'resume' && phase.kind === 'paused' && !phase.connected) {
      this.#live.dispatch({ type: 'resumedAfresh' });
      void this.#start();
    } else if (!isMember(this.#live.current)) {
      if (what === 'leave') this.leaveNow(); // the server does not know this tab: there is nobody to ask
    } else this.#ask(what === 'pause' ? { type: 'asked', what, rest: { kind: 'button' } } : { type: 'asked', what });
  }

  readonly askAgain = (): void => this.#askAgainAt(monotonicMs());

  /** Finishes the step as a pause does, then goes on by itself. */
  snooze(milliseconds: number): void {
    if (!isMember(this.#live.current)) return;
    const untilMs = wallMs() + milliseconds; // for the person to read
    this.#ask({ type: 'asked', what: 'pause', rest: { kind: 'snooze', untilMs } });
    void this.#wakeAt(monotonicMs() + milliseconds, untilMs);
  }

  /** Loaded anew while it rested: nothing is connected, and a snooze ends when it would have. */
  restOn(rest: Rest): void {
    this.#live.dispatch({ type: 'pausedAtOnce', rest });
    if (rest.kind === 'snooze') void this.#wakeAt(monotonicMs() + rest.untilMs - wallMs(), rest.untilMs);
  }

  /** Without finishing anything: the worker and with it all work on the GPU ends here and now. */
  pauseNow(): void {
    this.#stop();
    const { rest } = this.#live.current;
    this.#live.dispatch({ type: 'pausedAtOnce', rest: rest ?? { kind: 'button' } });
  }

  /** The newest saved state, for who helped to make it; what came of it, in a sentence. */
  download(): Promise<string> {
    return download(this.#live.current.run?.name ?? 'model', this.#token);
  }

  /** Among those who trained today, in a sentence. */
  async place(): Promise<string> {
    const headers = { authorization: `Bearer ${this.#token}` };
    const answer = await ask('/api/today', todayPlaceSchema, { headers });
    return answer.ok ? placeSentence(answer.value) : 'The server doesn’t say right now. Try again in a minute.';
  }

  prefer(preferences: Preferences): void {
    this.#live.dispatch({ type: 'learned', now: { preferences } });
    this.#followConditions();
  }

  see(surroundings: Surroundings, used: DayTraffic): void {
    this.#live.dispatch({ type: 'surroundingsSeen', surroundings, used });
    this.#followConditions();
  }

  /** Less of the GPU for a while, or all that the person gives again; the server sees it by the work's pace. */
  ease(factor: number): void {
    this.#live.dispatch({ type: 'learned', now: { eased: factor } });
    this.#tellWorker();
  }

  /** From now on; what concerns memory, from the next plan on. */
  limit(limits: Limits): void {
    this.#live.dispatch({ type: 'learned', now: { limits } });
    this.#tellWorker();
    this.#conversation?.send({ type: 'limits', limits });
  }

  /** Without waiting for the server to take over what this tab keeps. */
  leaveNow(): void {
    this.#stop();
    this.#live.dispatch({ type: 'leftUnconfirmed' });
  }

  /** The browser is about to freeze this tab, or to take it away: a moment is left, too little to hand anything over. */
  standStill(): void {
    this.#conversation?.drop();
  }

  // What the worker asks of its page.

  sendServer(message: PeerMessage): void {
    const sent = this.#conversation?.send(message) ?? false;
    if (!sent || message.type !== 'measured') return;
    this.#live.dispatch({ type: 'admitted' });
    const { wrongUnit } = message.profile;
    if (wrongUnit) this.#live.dispatch({ type: 'learned', now: { incident: withoutUnit(wrongUnit, wallMs()) } });
    if (this.#live.current.pending === 'pause') this.#conversation?.send({ type: 'pause' });
  }

  async recall(): Promise<string | null> {
    return keptChecks();
  }

  async remember(checks: string): Promise<void> {
    keepChecks(checks);
  }

  sendBytes(message: Uint8Array<ArrayBuffer>): void {
    this.#conversation?.sendBytes(message);
  }

  call(...call: Parameters<DonorPage['call']>): void {
    this.#conversation?.calls.call(...call);
  }

  callSignal(id: number, data: string): void {
    this.#conversation?.calls.callSignal(id, data);
  }

  hangUp(id: number): void {
    this.#conversation?.calls.hangUp(id);
  }

  showLinks(measured: MeasuredLinks): void {
    this.#live.dispatch({ type: 'linksMeasured', measured, atMs: wallMs() });
  }

  async mayAnswer(): Promise<boolean> {
    const { preferences, surroundings, today } = this.#live.current;
    return preferences.answers && surroundings.power !== 'battery' && !isNearlyUsedUp(preferences, today);
  }

  async mayMeasure(): Promise<boolean> {
    const { preferences, today } = this.#live.current;
    return !isNearlyUsedUp(preferences, today);
  }

  showStatus(status: DonorStatus): void {
    this.#live.dispatch({ type: 'workerShowed', status });
    this.#followConditions(); // its traffic may be the day's last
  }

  fail(reason: WorkerFailure, detail: string): void {
    const isFirst = this.#conversation === null;
    const hasComputed = this.#live.current.phase.kind === 'computing';
    if (isInDoubt(reason)) keepChecks(null);
    this.#stop();
    if (this.#live.current.pending === 'leave') {
      this.#live.dispatch({ type: 'leftUnconfirmed' });
      return;
    }
    if (reason === 'wrongGpu') {
      this.#live.dispatch({ type: 'failed', reason, detail });
      return;
    }
    if (reason === 'internal' && isFirst) void this.#failAtStart(detail);
    else this.#again(reason, detail, hasComputed);
  }

  /** What could not even be loaded is no fault of this page where its server is gone: that one is waited for. */
  async #failAtStart(detail: string): Promise<void> {
    const answer = await ask('/api/status', publicStatusSchema);
    const { kind } = this.#live.current.phase;
    if (this.#bridge || (kind !== 'starting' && kind !== 'reconnecting')) return;
    if (answer.ok || answer.reason !== UNREACHABLE) {
      this.#again('internal', detail, false);
      return;
    }
    const closed: SignalingState = { kind: 'closed', pauseMs: GONE_PAUSE_MS, isKept: false };
    this.#live.dispatch({ type: 'signalingChanged', state: closed });
    this.#startIn(GONE_PAUSE_MS);
  }

  #again(reason: Exclude<WorkerFailure, 'wrongGpu'>, detail: string, hasComputed: boolean): void {
    this.#trouble = nextTrouble(this.#trouble, monotonicMs(), hasComputed);
    const pauseMs = restartPauseMs(this.#trouble, reason);
    if (pauseMs === null) {
      this.#live.dispatch({ type: 'failed', reason, detail });
      return;
    }
    this.#live.dispatch({ type: 'restarting', reason });
    this.#startIn(pauseMs);
  }

  /** The one timer of the page: there is no worker now whose clock could be used. */
  #startIn(pauseMs: number): void {
    setTimeout(() => {
      if (this.#live.current.phase.kind === 'reconnecting' && !this.#bridge) void this.#start();
    }, pauseMs);
  }

  #ask(event: Extract<DonorEvent, { type: 'asked' }>): void {
    this.#live.dispatch(event);
    this.sendServer({ type: event.what });
  }

  /** Does what the page's own conditions want. */
  #followConditions(): void {
    const what = due(this.#live.current);
    if (what === 'stop') {
      this.#stop();
      this.#live.dispatch({ type: 'pausedAtOnce', rest: this.#live.current.rest });
    } else if (what === 'resume') this.ask(what);
    else if (what === 'pause') this.#ask({ type: 'asked', what });
  }

  #tellWorker(): void {
    const { limits, eased } = this.#live.current;
    this.#bridge?.limit({ ...limits, speed: Math.max(LEAST_SPEED, limits.speed * eased) });
  }

  async #wakeAt(dueMs: number, untilMs: number): Promise<void> {
    for (;;) {
      const { rest } = this.#live.current;
      if (rest?.kind !== 'snooze' || rest.untilMs !== untilMs) return;
      const leftMs = dueMs - monotonicMs();
      if (leftMs <= 0) return this.ask('resume');
      await this.#wait(Math.min(leftMs, SNOOZE_LOOK_MS));
    }
  }

  async #start(): Promise<void> {
    const bridge = new DonorBridge(this);
    this.#bridge = bridge;
    try {
      const [adapter, speaking] = await Promise.all([
        bridge.open(this.#live.current.limits),
        import('./conversation.ts'),
      ]);
      if (this.#bridge !== bridge) return;
      if (adapter.ok) this.#join(bridge, adapter.value, speaking);
      // A device that was there before may come back; one that never was does not.
      else if (this.#live.current.adapter) this.fail('deviceLost', adapter.reason);
      else {
        this.#stop();
        this.#live.dispatch({ type: 'failed', reason: 'noAdapter', detail: adapter.reason });
      }
    } catch (error) {
      if (this.#bridge === bridge) this.fail('internal', error instanceof Error ? error.message : String(error));
    }
  }

  #join(bridge: DonorBridge, adapter: AdapterProfile, speaking: typeof import('./conversation.ts')): void {
    this.#live.dispatch({ type: 'gpuOpened', adapter });
    this.#conversation = new speaking.Conversation({
      adapter,
      entry: this.#entry,
      key: donorKey(),
      limits: () => this.#live.current.limits,
      wait: (milliseconds) => this.#wait(milliseconds),
      onState: (state) => this.#onSignaling(state),
      onMessage: (message) => this.#onMessage(bridge, message),
      onBytes: (bytes) => bridge.serverSentBytes(bytes),
      onCall: (id, news) => bridge.callTold(id, news),
    });
    void this.#lookForSleep(bridge);
  }

  async #lookForSleep(bridge: DonorBridge): Promise<void> {
    let before = thisMoment();
    while (this.#bridge === bridge) {
      await this.#wait(SLEEP_LOOK_MS);
      const now = thisMoment();
      const incident = slept(before, now);
      if (incident) this.#live.dispatch({ type: 'learned', now: { incident } });
      before = now;
    }
  }

  async #wait(milliseconds: number): Promise<void> {
    try {
      if (this.#bridge) return await this.#bridge.wait(milliseconds);
    } catch {
      // The worker has ended; what waits then ends with it, or is late at worst.
    }
    await new Promise((resolve) => setTimeout(resolve, milliseconds));
  }

  #onSignaling(state: SignalingState): void {
    if (state.kind === 'closed') this.#bridge?.disconnected(state.isKept);
    if (state.kind === 'refused') {
      if (isInDoubt(state.reason)) keepChecks(null);
      this.#stop();
    }
    // The server plans without a donor whose connection is gone: that is all that leaving asks for.
    if ((state.kind === 'closed' || state.kind === 'refused') && this.#live.current.pending === 'leave') {
      this.leaveNow();
      return;
    }
    this.#live.dispatch({ type: 'signalingChanged', state });
    if (state.kind === 'refused' && state.retrySeconds !== null)
      this.#askAgainAt(monotonicMs() + state.retrySeconds * 1_000);
  }

  /** By timers of the page, since there is no worker now: a hidden page's are a minute late at most. */
  #askAgainAt(dueMs: number): void {
    clearTimeout(this.#retryTimer);
    const leftMs = dueMs - monotonicMs();
    if (leftMs <= 0) {
      this.#live.dispatch({ type: 'askedAgain' });
      void this.#start();
      return;
    }
    this.#live.dispatch({ type: 'countedDown', secondsLeft: Math.ceil(leftMs / 1_000) });
    this.#retryTimer = setTimeout(() => this.#askAgainAt(dueMs), Math.min(leftMs, COUNT_MS));
  }

  #onMessage(bridge: DonorBridge, message: ServerMessage): void {
    const { relayOnly } = this.#live.current.preferences;
    if (message.type !== 'snapshot') bridge.serverSaid(message, relayOnly);
    if (message.type === 'signal') return;
    if (message.type === 'welcome') this.#token = message.token;
    this.#live.dispatch({ type: 'serverSaid', message });
    this.#followConditions();
    if (message.type === 'standby' && message.state === 'left') this.#stop();
  }

  /** Everything that computes or talks ends here, at once. */
  #stop(): void {
    clearTimeout(this.#retryTimer);
    this.#conversation?.close();
    this.#conversation = null;
    this.#bridge?.close();
    this.#bridge = null;
  }
}
