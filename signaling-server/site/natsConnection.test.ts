import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { invariant, type Result } from '../../swarm/base.ts';
import { connectNats } from './natsConnection.ts';
import { hasNatsServer, startNatsServer } from './natsServer.ts';
import { Patience } from './patience.ts';
import { openSite } from './site.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-connection-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const reasonOf = (result: Result<unknown>): string => (result.ok ? 'it is connected' : result.reason);
const connected = (url: string, creds?: string) =>
  connectNats({ urls: [url], ...(creds === undefined ? {} : { creds }) }, new Patience(0, () => {}));

it('a credentials file that is none is named, and NATS is not blamed', async () => {
  const path = join(folder, 'none.creds');
  expect(reasonOf(await connected('nats://127.0.0.1:1', path))).toBe(`--nats-creds ${path}: there is no such file`);
  writeFileSync(path, 'nothing');
  expect(reasonOf(await connected('nats://127.0.0.1:1', path))).toBe(
    `--nats-creds ${path}: there are no credentials of a NATS user in it: expected a .creds file, as nsc and nats write them`,
  );
});

it.skipIf(!hasNatsServer())(
  'a NATS that lets nobody in, or has too little room, is told from one that is away',
  async () => {
    const limits = join(folder, 'nats.conf');
    writeFileSync(limits, 'jetstream { max_file_store: 5MB }\nauthorization { user: ada, password: right }\n');
    const started = await startNatsServer(join(folder, 'nats'), 0, ['-c', limits]);
    invariant(started.ok, 'it starts');
    const { url, stop } = started.value;
    const as = (who: string): string => url.replace('//', `//${who}@`);
    try {
      expect(reasonOf(await connected(as('ada:wrong')))).toBe(
        `NATS at ${url} refuses the user and password of its address`,
      );
      expect(reasonOf(await connected(url))).toBe(
        `NATS at ${url} refuses a connection without a user: give nats://USER:PASSWORD@HOST:PORT, or --nats-creds FILE`,
      );
      const options = { urls: [as('ada:right')], site: 'shoal', directory: join(folder, 'work'), log: () => {} };
      expect(reasonOf(await openSite(options))).toMatch(/a site reserves 6 MiB .* raise max_file_store/);
    } finally {
      await stop();
    }
  },
);
