/** What a page is told of its computer, as a test wants it: the plug, the screen's frames, whether somebody is there. */

import type { Page } from 'playwright';
import type { OpenBrowser } from './browser.ts';

/** What the stand-ins below leave in the page. */
interface Levers {
  plug(isIn: boolean): void;
  drawFrames(how: 'smooth' | 'stuttering' | 'none'): void;
}

/** Before the page loads anything: a battery that is charged, and frames that come in time. No clock has a say in them. */
export function standIn(): void {
  const battery = Object.assign(new EventTarget(), { charging: true });
  Object.assign(navigator, { getBattery: async () => battery });
  // The page makes way for a person's picture only where a person may look.
  Object.defineProperty(navigator, 'webdriver', { value: false });
  // A slow screen: fewer frames to a second.
  const SMOOTH_MS = 40;
  const STUTTERING_MS = [SMOOTH_MS, SMOOTH_MS, SMOOTH_MS, SMOOTH_MS, SMOOTH_MS, 250];
  let intervals: readonly number[] = [SMOOTH_MS];
  let waiting = new Map<number, FrameRequestCallback>();
  let asked = 0;
  let drawn = 0;
  let atMs = 0;
  globalThis.requestAnimationFrame = (callback) => {
    waiting.set(++asked, callback);
    return asked;
  };
  globalThis.cancelAnimationFrame = (request) => waiting.delete(request);
  setInterval(() => {
    const interval = intervals[drawn++ % intervals.length];
    if (interval === undefined) return;
    atMs += interval;
    const due = waiting;
    waiting = new Map();
    for (const callback of due.values()) callback(atMs);
  });
  const levers: Levers = {
    plug: (isIn) => {
      battery.charging = isIn;
      battery.dispatchEvent(new Event('chargingchange'));
    },
    drawFrames: (how) => {
      intervals = how === 'none' ? [] : how === 'smooth' ? [SMOOTH_MS] : STUTTERING_MS;
    },
  };
  Object.assign(globalThis, levers);
}

type Lever<Name extends keyof Levers> = Parameters<Levers[Name]>[0];

export const plug = (page: Page, isIn: Lever<'plug'>): Promise<void> =>
  page.evaluate((is) => (globalThis as unknown as Levers).plug(is), isIn);

export const drawFrames = (page: Page, how: Lever<'drawFrames'>): Promise<void> =>
  page.evaluate((wanted) => (globalThis as unknown as Levers).drawFrames(wanted), how);

/** The browser's own detector of idleness, permitted; the person is the test's. Returns who says whether one is there. */
export async function permitIdleness(
  { browser, context }: OpenBrowser,
  page: Page,
): Promise<(isHere: boolean) => Promise<void>> {
  const session = await context.newCDPSession(page);
  const { targetInfo } = await session.send('Target.getTargetInfo');
  const whole = await browser.newBrowserCDPSession();
  await whole.send('Browser.grantPermissions', {
    origin: new URL(page.url()).origin,
    permissions: ['idleDetection'],
    ...(targetInfo.browserContextId === undefined ? {} : { browserContextId: targetInfo.browserContextId }),
  });
  return async (isHere) => {
    await session.send('Emulation.setIdleOverride', { isUserActive: isHere, isScreenUnlocked: true });
  };
}
