/** What is asked of every page, whatever it shows: readable by everyone, usable without a mouse, and without complaints. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import type { Page } from 'playwright';
import { expect } from 'vitest';
import { temporaryFolder } from './product.ts';

export const NARROW = { width: 350, height: 700 };
const WIDTHS = [1440, 768, NARROW.width];
const SCHEMES = ['light', 'dark'] as const;

/**
 * At every width and in both schemes nothing sticks out of the window; in the narrow one axe finds nothing wrong in either.
 * No page has frames, so that axe needs no page of its own to put its findings together.
 */
export async function expectAccessible(page: Page, where = 'the page'): Promise<void> {
  const before = page.viewportSize();
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: NARROW.height });
    for (const colorScheme of SCHEMES) {
      await page.emulateMedia({ colorScheme });
      const overhang = await page.evaluate(() => {
        const { scrollWidth, clientWidth } = document.documentElement;
        return scrollWidth - clientWidth;
      });
      expect(overhang, `${where}, ${width}, ${colorScheme}`).toBe(0);
    }
  }
  for (const colorScheme of SCHEMES) {
    await page.emulateMedia({ colorScheme });
    const { violations } = await new AxeBuilder({ page }).setLegacyMode().analyze();
    const faults = violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]);
    expect(faults, `${where}, ${colorScheme}`).toEqual([]);
  }
  if (before) await page.setViewportSize(before);
}

/** The file that a press of a button hands to the person. */
export async function savedBy(
  page: Page,
  press: () => Promise<void>,
): Promise<{ readonly name: string; readonly text: string }> {
  const download = page.waitForEvent('download');
  await press();
  const file = await download;
  const path = join(temporaryFolder(), 'saved');
  await file.saveAs(path);
  return { name: file.suggestedFilename(), text: readFileSync(path, 'utf8') };
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

/** Reached by the Tab key alone, and each thing on the way shows that it has the focus; then `key` is pressed there. */
export async function byKeyboard(page: Page, name: string, key: 'Enter' | 'Space'): Promise<void> {
  for (let presses = 0; presses < 80; presses++) {
    await page.keyboard.press('Tab');
    const { text, ring } = await page.evaluate(() => {
      const focused = document.activeElement;
      const named = focused instanceof HTMLInputElement ? focused.labels?.[0] : focused;
      // What scrolls has the focus too, and the words of all that is in it.
      const text = focused?.matches('a, button, input, summary') ? named?.textContent : '';
      // Behind its last thing the page has the focus itself, and then its first thing.
      const isPage = focused === null || focused === document.body;
      return { text: text ?? '', ring: isPage ? 'page' : getComputedStyle(focused).outlineStyle };
    });
    expect(ring, text).not.toBe('none');
    if (text.includes(name)) return page.keyboard.press(key);
  }
  throw new Error(`${name} is not reached by keyboard`);
}

/** A line that is set from the right begins elsewhere when a letter comes to it: some millionths. */
const NOTICED = 0.001;

interface Shift extends PerformanceEntry {
  /** Share of the window that moved, times how far, of the window. */
  readonly value: number;
  readonly hadRecentInput: boolean;
  readonly sources: readonly {
    readonly node: Node | null;
    readonly previousRect: DOMRectReadOnly;
    readonly currentRect: DOMRectReadOnly;
  }[];
}

/** What moves from now on though nobody touched anything; asked for what it was, from where to where, and below what. */
export async function shiftsOf(page: Page): Promise<() => Promise<readonly string[]>> {
  await page.evaluate((noticed) => {
    const shifts: string[] = [];
    Object.assign(globalThis, { shifts });
    new PerformanceObserver((list) => {
      for (const { value, hadRecentInput, sources } of list.getEntries() as Shift[]) {
        if (hadRecentInput || value < noticed) continue;
        const moved = sources.map(({ node, previousRect, currentRect }) => {
          const text = node?.textContent?.slice(0, 60);
          return `${text} from ${previousRect.x}, ${previousRect.y} to ${currentRect.x}, ${currentRect.y}`;
        });
        shifts.push(`${moved.join(' and ')}; ${document.querySelector('main')?.textContent.slice(0, 600)}`);
      }
    }).observe({ type: 'layout-shift' });
  }, NOTICED);
  return () => page.evaluate(() => (globalThis as unknown as { shifts: readonly string[] }).shifts);
}
