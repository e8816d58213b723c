import { expect, test } from 'vitest';
import { backportsOf } from './backports.mjs';

const BOOKWORM = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_CODENAME=bookworm\nID=debian\n';
const STANZAS = `Types: deb
# a snapshot
URIs: http://one.example/debian-security
Suites: bookworm-security
Components: main

Types: deb
URIs: http://two.example/debian
Suites: bookworm bookworm-updates
Components: main
`;
const LINES =
  '# deb http://old.example/debian bookworm main\ndeb [arch=amd64] http://three.example/debian bookworm main\n';

test.each([
  ['stanzas', STANZAS, 'http://two.example/debian'],
  ['lines', LINES, 'http://three.example/debian'],
])('from %s: the mirror of the release itself', (_, list, mirror) => {
  const found = backportsOf(BOOKWORM, ['deb http://tools.example stable main\n', list]);
  expect(found?.suite).toBe('bookworm-backports');
  expect(found?.text).toContain(`\nURIs: ${mirror}\nSuites: bookworm-backports\n`);
});

test('what is listed is not listed again', () => {
  const first = backportsOf(BOOKWORM, [STANZAS]);
  expect(backportsOf(BOOKWORM, [STANZAS, first?.text ?? ''])).toEqual({ suite: 'bookworm-backports', text: null });
});

test('none of a newer release, of another system, or of a machine without lists', () => {
  expect(backportsOf(BOOKWORM.replaceAll('bookworm', 'trixie'), [STANZAS.replaceAll('bookworm', 'trixie')])).toBeNull();
  expect(backportsOf('ID=alpine\n', [STANZAS])).toBeNull();
  expect(backportsOf(BOOKWORM, [])).toBeNull();
});
