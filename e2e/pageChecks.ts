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
}

/** Where the keyboard went since this was asked last. */
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
    return { by: at - all.indexOf(before), isLast: at === 0 || at === all.length - 1 };
  }, CONTROLS);

/** What keeps a person from seeing where the keyboard is. */
const hidden = (page: Page): Promise<string | null> =>
  page.evaluate(() => {
    const focused = document.activeElement ?? document.body;
    const { outlineStyle, outlineWidth } = getComputedStyle(focused);
    const { top, bottom } = focused.getBoundingClientRect();
    const name = focused.textContent?.trim().slice(0, 40) || focused.id || focused.tagName;
    if (bottom <= 0 || top >= innerHeight) return `${name} is out of sight`;
    const isRinged =
      focused.matches(':focus-visible') && outlineStyle !== 'none' && Number.parseFloat(outlineWidth) >= 2;
    return isRinged ? null : `${name} shows no focus`;
  });

async function walk(page: Page, key: 'Tab' | 'Shift+Tab'): Promise<void> {
  const way = key === 'Tab' ? 1 : -1;
  await move(page);
  for (let stays = 0; stays < PLACES_LIMIT; ) {
    await page.keyboard.press(key);
    const { by, isLast } = await move(page);
    if (by === 0) {
      stays++;
      continue;
    }
    stays = 0;
    expect(by).toBe(way);
    await expect.poll(() => hidden(page), { timeout: 10_000 }).toBeNull();
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

/** A line that is set from the right begins elsewhere when a letter comes to it: some millionths. */
const NOTICED = 0.001;

interface Shift extends PerformanceEntry {
  /** Share of the window that moved, times how far, of the window. */
  readonly value: number;
  readonly hadRecentInput: boolean;
  readonly sources: readonly { readonly node: Node | null }[];
}

/** What moves from now on though nobody touched anything; asked for what it was. */
export async function shiftsOf(page: Page): Promise<() => Promise<readonly string[]>> {
  await page.evaluate((noticed) => {
    const shifts: string[] = [];
    Object.assign(globalThis, { shifts });
    new PerformanceObserver((list) => {
      for (const { value, hadRecentInput, sources } of list.getEntries() as Shift[]) {
        if (hadRecentInput || value < noticed) continue;
        shifts.push(sources.map(({ node }) => node?.textContent?.slice(0, 60)).join(' and '));
      }
    }).observe({ type: 'layout-shift' });
  }, NOTICED);
  return () => page.evaluate(() => (globalThis as unknown as { shifts: readonly string[] }).shifts);
}
