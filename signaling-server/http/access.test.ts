import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { OTHER_KEY, TEST_CERTIFICATE, TEST_KEY } from '../testing/testCertificate.ts';
import {
  isKnownHost,
  isSameOrigin,
  knownNames,
  parseEmbedOn,
  parsePublicUrl,
  parseTrustProxy,
  readTls,
  secureContextProblem,
} from './access.ts';

const folder = mkdtempSync(join(tmpdir(), 'shoal-tls-'));
afterAll(() => rmSync(folder, { recursive: true }));
const file = (name: string, content: string): string => {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
};
const reasonOf = (result: { ok: boolean; reason?: string }): string => (result.ok ? 'accepted' : (result.reason ?? ''));

describe('--tls-cert and --tls-key', () => {
  const cert = file('cert.pem', TEST_CERTIFICATE);
  const key = file('key.pem', TEST_KEY);

  test('a pair, or neither', () => {
    expect(readTls(cert, key)).toEqual({ ok: true, value: { cert: TEST_CERTIFICATE, key: TEST_KEY } });
    expect(readTls(undefined, undefined)).toEqual({ ok: true, value: null });
  });

  test('one sentence that names the file for everything else', () => {
    expect(reasonOf(readTls(cert, undefined))).toBe('--tls-cert needs --tls-key FILE beside it');
    expect(reasonOf(readTls(undefined, key))).toBe('--tls-key needs --tls-cert FILE beside it');
    expect(reasonOf(readTls(cert, file('other.pem', OTHER_KEY)))).toMatch(
      /other\.pem is not the key of the certificate in .*cert\.pem/,
    );
    expect(reasonOf(readTls(file('text.pem', 'hello'), key))).toMatch(/text\.pem is not a certificate/);
    expect(reasonOf(readTls(cert, file('text.pem', 'hello')))).toMatch(/text\.pem is not a private key/);
    expect(reasonOf(readTls(file('empty.pem', ''), key))).toMatch(/--tls-cert: .*empty\.pem is empty/);
    expect(reasonOf(readTls(cert, file('empty.pem', '\n')))).toMatch(/--tls-key: .*empty\.pem is empty/);
    expect(reasonOf(readTls(join(folder, 'nothing'), key))).toMatch(/nothing cannot be read/);
  });
});

test('--public-url is an origin', () => {
  expect(parsePublicUrl('https://shoal.example.org')).toEqual({ ok: true, value: 'https://shoal.example.org' });
  expect(parsePublicUrl('http://10.0.0.2:8080/')).toEqual({ ok: true, value: 'http://10.0.0.2:8080' });
  for (const text of ['shoal.example.org', 'ftp://a', 'https://a/path', 'https://a/?q', 'https://u@a']) {
    expect(reasonOf(parsePublicUrl(text))).toMatch(/--public-url ".*expected https/);
  }
});

test('--trust-proxy takes addresses and ranges', () => {
  expect(parseTrustProxy('127.0.0.1, 10.0.0.0/8,loopback,2001:db8::/32')).toMatchObject({ ok: true });
  for (const text of ['proxy.example.org', '10.0.0.0/33', '10.0.0.0/8/8', '', '1.2.3.4,']) {
    expect(reasonOf(parseTrustProxy(text))).toMatch(/^--trust-proxy: /);
  }
});

test('only https and localhost give WebGPU', () => {
  for (const url of ['http://localhost:1', 'http://a.localhost', 'http://127.0.0.2:8', 'http://[::1]:8', 'https://a']) {
    expect(secureContextProblem(url)).toBeNull();
  }
  for (const url of ['http://10.0.0.2:8080', 'http://127.example.org']) {
    expect(secureContextProblem(url)).toContain(url);
  }
});

test('a server answers to the names that it was started with, and to addresses', () => {
  const names = knownNames('Shoal.lan', { publicUrl: 'https://train.example.org:8443' });
  const known = [
    'shoal.lan:8080',
    'train.example.org',
    'localhost',
    'a.localhost:1',
    '127.0.0.1',
    '[::1]:8',
    '192.0.2.7',
  ];
  for (const host of [...known, 'SHOAL.LAN', 'localhost.', undefined])
    expect([host, isKnownHost(host, names)]).toEqual([host, true]);
  const others = [
    'evil.example.org',
    'evil.example.org:8080',
    'localhost.evil.example.org',
    'train.example.org.evil',
    '',
  ];
  for (const host of [...others, '127.0.0.1.evil.example', 'a b', 'x@localhost:1:2'])
    expect([host, isKnownHost(host, names)]).toEqual([host, false]);
});

test('a page of another site is told apart, also behind a proxy', () => {
  const access = { publicUrl: 'https://shoal.example.org' };
  const from = (origin: string) => isSameOrigin({ origin, host: 'inside:8080' }, access);
  expect(from('https://shoal.example.org')).toBe(true);
  expect(from('http://inside:8080')).toBe(true);
  expect(from('https://evil.example.org')).toBe(false);
  expect(from('null')).toBe(false);
  expect(isSameOrigin({ host: 'inside:8080' }, {})).toBe(true);
  expect(isSameOrigin({ host: 'inside:8080', 'sec-fetch-site': 'cross-site' }, {})).toBe(false);
});

test('sites are origins, and nothing else', () => {
  expect(parseEmbedOn('https://blog.example, http://localhost:3000/')).toEqual({
    ok: true,
    value: ['https://blog.example', 'http://localhost:3000'],
  });
  expect(parseEmbedOn('HTTPS://A.com:443, http://B.example:80/,https://bücher.example')).toEqual({
    ok: true,
    value: ['https://a.com', 'http://b.example', 'https://xn--bcher-kva.example'],
  });
  for (const wrong of [
    '*',
    'blog.example',
    "https://a.example 'unsafe-inline'",
    'https://a.example/page',
    'https://user:word@a.example',
    'https://a;b',
    'https://a%3bb',
    'https://$&',
    'https://*',
    'https://*.a.example',
    'data:x',
    '',
  ])
    expect(reasonOf(parseEmbedOn(wrong))).toBe(
      `--embed-on: "${wrong}" is no site: expected https://HOST or http://HOST, with :PORT at will, no path and no *, with commas between them`,
    );
});
