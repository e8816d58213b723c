/** What is asked of every page, whatever it shows: readable by everyone, usable without a mouse, and without complaints. */
import { AxeBuilder } from '@axe-core/playwright';
import type { Page } from 'playwright';
import { expect } from 'vitest';

export const NARROW = { width: 350, height: 700 };

/**
 * What axe finds wrong, in light and in dark; and whether anything sticks out of a narrow window. No page has frames, so
 * that axe needs no page of its own to put its findings together.
 */
export async function expectAccessible(page: Page): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    const { violations } = await new AxeBuilder({ page }).setLegacyMode().analyze();
    expect(violations.map(({ id, nodes }) => [colorScheme, id, nodes.map(({ html }) => html)])).toEqual([]);
  }
  const before = page.viewportSize();
  await page.setViewportSize(NARROW);
  const overhang = await page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    return scrollWidth - clientWidth;
  });
  expect(overhang).toBe(0);
  if (before) await page.setViewportSize(before);
}

/** Of a page that has loaded nothing yet: errors and warnings in its console, and breaches of the server's policy. */
export async function complaintsOf(page: Page): Promise<readonly string[]> {
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  page.on('pageerror', ({ message }) => complaints.push(message));
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) =>
      console.error(`against the policy: ${violatedDirective} ${blockedURI}`),
    );
  });
  return complaints;
}

const CONTROLS = 'a[href], button, input, select, textarea, summary, [tabindex="0"]';
/** A time of day is one control with several places for the keyboard. */
const PLACES_LIMIT = 6;

interface Move {
  /** In the order of the controls that can be seen: 0 is where it was before. */
  readonly by: number;
  readonly isLast: boolean;
  readonly fault: string | null;
}

/** Where the keyboard went, and whether a person sees that. */
const move = (page: Page): Promise<Move> =>
  page.evaluate((controls) => {
    const kept = globalThis as unknown as { walkedTo?: Element };
    const all = [...document.querySelectorAll(controls)].filter(
      (control) => control.checkVisibility() && !control.matches(':disabled'),
    );
    const focused = document.activeElement ?? document.body;
    const before = kept.walkedTo ?? focused;
    kept.walkedTo = focused;
    const at = all.indexOf(focused);
    const { outlineStyle, outlineWidth } = getComputedStyle(focused);
    const { top, bottom } = focused.getBoundingClientRect();
    const isRinged =
      focused.matches(':focus-visible') && outlineStyle !== 'none' && Number.parseFloat(outlineWidth) >= 2;
    const isInSight = bottom > 0 && top < innerHeight;
    const name = focused.textContent?.trim().slice(0, 40) || focused.id || focused.tagName;
    return {
      by: at - all.indexOf(before),
      isLast: at === 0 || at === all.length - 1,
      fault: isRinged && isInSight ? null : `${name} ${isInSight ? 'shows no focus' : 'is out of sight'}`,
    };
  }, CONTROLS);

async function walk(page: Page, key: 'Tab' | 'Shift+Tab'): Promise<void> {
  const way = key === 'Tab' ? 1 : -1;
  await move(page);
  for (let stays = 0; stays < PLACES_LIMIT; ) {
    await page.keyboard.press(key);
    const { by, isLast, fault } = await move(page);
    if (by === 0) {
      stays++;
      continue;
    }
    stays = 0;
    expect(fault).toBeNull();
    expect(by).toBe(way);
    if (isLast) return;
  }
  throw new Error('the keyboard is kept where it is');
}

/**
 * By the Tab key through the whole page and back: each control that can be seen has its turn, in the order in which they
 * are read, shows that it has it, and lets go of it.
 */
export async function walkByKeyboard(page: Page): Promise<void> {
  await page.locator(CONTROLS).first().focus();
  await walk(page, 'Tab');
  await walk(page, 'Shift+Tab');
}

interface Shift extends PerformanceEntry {
  readonly hadRecentInput: boolean;
  readonly sources: readonly { readonly node: Node | null }[];
}

/** What moves from now on though nobody touched anything; asked for what it was. */
export async function shiftsOf(page: Page): Promise<() => Promise<readonly string[]>> {
  await page.evaluate(() => {
    const shifts: string[] = [];
    Object.assign(globalThis, { shifts });
    new PerformanceObserver((list) => {
      for (const { hadRecentInput, sources } of list.getEntries() as Shift[]) {
        if (!hadRecentInput) shifts.push(sources.map(({ node }) => node?.textContent?.slice(0, 60)).join(' and '));
      }
    }).observe({ type: 'layout-shift' });
  });
  return () => page.evaluate(() => (globalThis as unknown as { shifts: readonly string[] }).shifts);
}
