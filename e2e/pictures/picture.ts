/**
 * A state of a page in four pictures: a desktop's window light and dark, a phone's, and a window at 200 %. They lie in
 * `.shoal/pictures/`, which is no part of the repository; `docs/pictures.md` says how they are made.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright';

const FOLDER = join(import.meta.dirname, '..', '..', '.shoal', 'pictures');
const DESKTOP = { width: 1180, height: 900 };
const PHONE = { width: 390, height: 844 };
/** Twice as large, in the same window: half of its width is left. */
const ZOOMED = { width: DESKTOP.width / 2, height: DESKTOP.height / 2 };

interface View {
  readonly name: 'light' | 'dark' | 'phone' | 'zoom';
  readonly viewport: typeof DESKTOP;
  readonly colorScheme: 'light' | 'dark';
}

const VIEWS: readonly View[] = [
  { name: 'light', viewport: DESKTOP, colorScheme: 'light' },
  { name: 'dark', viewport: DESKTOP, colorScheme: 'dark' },
  { name: 'phone', viewport: PHONE, colorScheme: 'light' },
  { name: 'zoom', viewport: ZOOMED, colorScheme: 'light' },
];

/** The whole page, in each view. A state that does not last is taken in the first one alone. */
export async function picture(page: Page, name: string, { passing = false } = {}): Promise<void> {
  mkdirSync(FOLDER, { recursive: true });
  for (const view of passing ? VIEWS.slice(0, 1) : VIEWS) {
    if (!passing) {
      await page.setViewportSize(view.viewport);
      await page.emulateMedia({ colorScheme: view.colorScheme });
      await page.evaluate(() => scrollTo(0, 0));
    }
    await page.screenshot({ path: join(FOLDER, `${name}.${view.name}.png`), fullPage: true });
  }
  if (passing) return;
  await page.setViewportSize(DESKTOP);
  await page.emulateMedia({ colorScheme: 'light' });
}

/** Wide enough for the first picture, before anything is looked at. */
export const asDesktop = (page: Page): Promise<void> => page.setViewportSize(DESKTOP);

/** What an operator would say of the run. */
export const CARD = {
  purpose: 'A small model that learns to write like a book from 1851, trained by whoever lends a GPU for a while.',
  ...{
    by: 'the Nantucket reading circle',
    text: 'Moby Dick, by Herman Melville',
    licence: 'Apache-2.0',
    link: 'https://example.org/whales',
  },
};
