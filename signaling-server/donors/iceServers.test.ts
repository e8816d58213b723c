import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { readIceServers } from './iceServers.ts';

const folder = mkdtempSync(join(tmpdir(), 'shoal-ice-'));
afterAll(() => rmSync(folder, { recursive: true }));

function read(content: unknown) {
  const path = join(folder, 'ice.json');
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return readIceServers(path);
}
const reasonOf = (content: unknown): string => {
  const result = read(content);
  if (result.ok) throw new Error('it was accepted');
  return result.reason;
};

describe('--ice-servers', () => {
  test('a list, or a configuration around it', () => {
    const turn = { urls: ['turn:example.org:3478?transport=tcp', 'stun:example.org'], username: 'u', credential: 'c' };
    expect(read([{ urls: 'stun:[2001:db8::1]:3478' }, turn])).toMatchObject({ ok: true, value: [{}, turn] });
    expect(read({ iceServers: [turn], iceTransportPolicy: 'relay' })).toEqual({ ok: true, value: [turn] });
    expect(read([])).toEqual({ ok: true, value: [] });
    expect(read('\uFEFF[]')).toEqual({ ok: true, value: [] });
  });

  test('what a browser would throw at is refused in one sentence that names file, field and what was expected', () => {
    expect(reasonOf('{')).toMatch(/ice\.json is not valid JSON: .*ICE servers was expected/);
    expect(reasonOf([{ urls: 'http://example.org' }])).toMatch(/ice\.json: 0\.urls.*|ice\.json: .*stun:HOST/);
    expect(reasonOf([{ urls: 'turn:example.org' }])).toMatch(/0: a TURN server needs username and credential/);
    expect(reasonOf([{ url: 'stun:example.org' }])).toMatch(/ice\.json: 0/);
    expect(reasonOf({ servers: [] })).toMatch(/iceServers/);
    expect(reasonOf(7)).not.toBe('');
    expect(reasonOf([{ urls: [] }])).toMatch(/0\.urls/);
  });

  test('a file that is not there', () => {
    const missing = readIceServers(join(folder, 'nothing.json'));
    expect(missing.ok).toBe(false);
  });
});
