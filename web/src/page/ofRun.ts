/**
 * Which of its site's runs a page is about, where the site trains several: the one that its link names (`?run=`), or that
 * somebody chose on it. Every call of the page says it; a server that is alone has one run and does not look.
 */
import { signal } from '@preact/signals';

/** Null: the link leaves it open. */
export const askedRun = 'location' in globalThis ? new URLSearchParams(location.search).get('run') : null;

/** Null: the one that the site began with. */
export const ofRun = signal<string | null>(askedRun);

/** The address with the run in it, where it names none itself. */
export function withRun(path: string): string {
  const run = ofRun.peek();
  if (run === null || /[?&]run=/.test(path)) return path;
  const [address = '', ...fragment] = path.split('#');
  const named = `${address}${address.includes('?') ? '&' : '?'}${new URLSearchParams({ run })}`;
  return [named, ...fragment].join('#');
}
