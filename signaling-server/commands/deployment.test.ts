/** What `deploy/` starts is what the command understands, and what is copied into its image is what the command needs. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readIceServers } from '../donors/iceServers.ts';
import { parseTrustProxy } from '../http/access.ts';
import { program } from './program.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const read = (name: string): string => readFileSync(join(ROOT, 'deploy', name), 'utf8');

/** The words of a list in YAML that follow a key, until the indentation ends. */
function listAfter(text: string, key: string): string[] {
  const [, after = ''] = text.split(key);
  const words: string[] = [];
  for (const line of after.split('\n').slice(1)) {
    const word = /^ +- (.*)$/.exec(line)?.[1];
    if (word === undefined) break;
    words.push(word);
  }
  return words;
}

describe('deploy/', () => {
  test('serves with options that the command has', async () => {
    const serve = (await program('serve')).commands.find((command) => command.name() === 'serve');
    const known = serve?.options.map(({ long }) => long) ?? [];
    const [name, ...options] = listAfter(read('compose.yaml'), '  command:');
    expect(name).toBe('serve');
    expect(options.length).toBeGreaterThan(5);
    expect(options.map((word) => word.split('=')[0]).filter((option) => !known.includes(option))).toEqual([]);
    const image = [...(/^CMD \["serve", (.*)\]$/m.exec(read('Containerfile'))?.[1] ?? '').matchAll(/"(--[a-z-]+)"/g)];
    expect(image.map(([, option]) => option)).toEqual(['--host', '--port', '--data-dir']);
    const proxies = options.find((word) => word.startsWith('--trust-proxy='))?.split('=')[1] ?? '';
    expect(parseTrustProxy(proxies).ok).toBe(true);
  });

  test('has every file that it names, and servers of ICE as donors are told them', () => {
    for (const [, file = ''] of read('compose.yaml').matchAll(/- \.\/(\S+?):/g))
      expect(existsSync(join(ROOT, 'deploy', file))).toBe(true);
    for (const [, file = ''] of read('Containerfile').matchAll(/^COPY (?:--from=build )?((?:\/shoal\/)?\S+)/gm)) {
      const path = file.replace('/shoal/', '');
      if (!['node_modules', 'dist'].includes(path)) expect(existsSync(join(ROOT, path)), path).toBe(true);
    }
    expect(readIceServers(join(ROOT, 'deploy', 'ice.json')).ok).toBe(true);
  });

  test('asks for health where the server says it', () => {
    expect(read('Containerfile')).toContain('/healthz');
    expect(read('Caddyfile')).toContain('health_uri /readyz');
  });
});
