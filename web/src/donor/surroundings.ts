/**
 * Looks at what conditions are about: screen, power, the person, the clock; and keeps the screen awake. What a browser does not say stays unknown. The
 * clock is looked at by a timer of the page, which a hidden tab gets once a minute: hours are kept to the minute.
 */
import { monotonicMs, wallMs } from '../page/clock.ts';
import { AWAY_MINUTES, dayOf, type Surroundings, UNKNOWN_SURROUNDINGS } from './conditions.ts';

const LOOK_MS = 10_000;
const AWAY_MS = AWAY_MINUTES * 60_000;
const HANDS = ['pointerdown', 'pointermove', 'keydown', 'wheel', 'touchstart'] as const;

interface BatteryManager extends EventTarget {
  readonly charging: boolean;
}

/** Chromium's, with a permission; what it sees of the person is of the whole computer. */
interface IdleDetector extends EventTarget {
  readonly userState: 'active' | 'idle' | null;
  readonly screenState: 'locked' | 'unlocked' | null;
  start(options: { threshold: number }): Promise<void>;
}
interface IdleDetectorKind {
  new (): IdleDetector;
  requestPermission(): Promise<PermissionState>;
}
declare global {
  interface Navigator {
    getBattery?(): Promise<BatteryManager>;
  }
  var IdleDetector: IdleDetectorKind | undefined;
}

export class Watcher {
  readonly #onSeen: (surroundings: Surroundings) => void;
  #seen = UNKNOWN_SURROUNDINGS;
  #battery: BatteryManager | null = null;
  #idle: IdleDetector | null = null;
  #handMs = monotonicMs();

  constructor(onSeen: (surroundings: Surroundings) => void) {
    this.#onSeen = onSeen;
    const look = (): void => this.look();
    document.addEventListener('visibilitychange', look);
    for (const hand of HANDS) addEventListener(hand, () => this.#hand(), { passive: true });
    setInterval(look, LOOK_MS);
    void this.#watchBattery();
    look();
  }

  /** What is so now; told only where it is new. */
  look(): void {
    const now = new Date(wallMs());
    const { userState, screenState } = this.#idle ?? { userState: null, screenState: null };
    const isInUse = monotonicMs() - this.#handMs < AWAY_MS;
    const seen: Surroundings = {
      hidden: document.visibilityState === 'hidden',
      power: this.#battery === null ? 'unknown' : this.#battery.charging ? 'mains' : 'battery',
      isPersonHere: userState === null ? isInUse : userState === 'active' && screenState !== 'locked',
      personSeenBy: userState === null ? 'tab' : 'system',
      minuteOfDay: now.getHours() * 60 + now.getMinutes(),
      day: dayOf(now),
    };
    const isNew = (Object.keys(seen) as (keyof Surroundings)[]).some((part) => seen[part] !== this.#seen[part]);
    this.#seen = seen;
    if (isNew) this.#onSeen(seen);
  }

  /** Asks the browser for the whole computer's idleness; to be called from a click where it was not granted before. */
  async watchPerson(): Promise<void> {
    if (this.#idle !== null || globalThis.IdleDetector === undefined) return;
    try {
      // TypeScript's list of permissions has not heard of Chromium's; asking needs a click, looking does not.
      const { state } = await navigator.permissions.query({ name: 'idle-detection' as PermissionName });
      if (state !== 'granted' && (await globalThis.IdleDetector.requestPermission()) !== 'granted') return;
      const idle = new globalThis.IdleDetector();
      idle.addEventListener('change', () => this.look());
      await idle.start({ threshold: AWAY_MS });
      this.#idle = idle;
      this.look();
    } catch {
      // Not granted, or not from a click: this tab is all that is seen.
    }
  }

  #hand(): void {
    const wasHere = this.#seen.isPersonHere;
    this.#handMs = monotonicMs();
    if (!wasHere) this.look();
  }

  async #watchBattery(): Promise<void> {
    try {
      this.#battery = (await navigator.getBattery?.()) ?? null;
      this.#battery?.addEventListener('chargingchange', () => this.look());
      this.look();
    } catch {
      // A policy of the browser or of the page around this one: it does not say.
    }
  }
}

/** Keeps the screen awake while a person wants it. The browser lets go when the tab is hidden: then it is asked again. */
export class WakeLock {
  #wanted = false;
  #lock: WakeLockSentinel | null = null;

  want(isWanted: boolean): void {
    if (isWanted === this.#wanted) return;
    this.#wanted = isWanted;
    void this.renew();
  }

  /** Also to be called when the tab comes to the front. */
  async renew(): Promise<void> {
    try {
      if (!this.#wanted) {
        await this.#lock?.release();
        this.#lock = null;
      } else if (document.visibilityState === 'visible' && (this.#lock?.released ?? true)) {
        this.#lock = await navigator.wakeLock.request('screen');
        if (!this.#wanted) await this.renew();
      }
    } catch {
      // A browser without it, or a machine low on battery, sleeps when it likes.
    }
  }
}
