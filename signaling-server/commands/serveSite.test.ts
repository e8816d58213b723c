import { readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, test } from 'vitest';
import { invariant, type Result } from '../../swarm/base.ts';
import { hasNatsServer, startNatsServer } from '../site/natsServer.ts';
import { openSite } from '../site/site.ts';
import { SiteInvite } from '../site/siteInvite.ts';
import { addRun } from '../store/dataDirectory.ts';
import { Captured } from '../testing/captured.ts';
import { TinyServers } from '../testing/tinyServers.ts';
import { runCommand } from './program.ts';
import { firstRun } from './serveSite.ts';

const captured = new Captured();
beforeEach(() => captured.begin());
afterEach(() => captured.end());

it.each([
  ['its store', []],
  ['nothing but a copy of it', ['shoal.sqlite', 'shoal.writes']],
])('a folder that has a single server’s runs (%s) is no working folder, and stays as it is', async (_, lost) => {
  const servers = new TinyServers({ steps: 4 }, false);
  try {
    const folder = await folderWithRun(servers);
    for (const name of lost) renameSync(join(folder, name), join(folder, name.replace('.', '.copy-1.')));
    const blobs = readdirSync(join(folder, 'blobs'), { recursive: true });
    const words = ['serve', '--port', '0', '--nats', 'nats://user:secret@127.0.0.1:1', '--site', 'new'];
    expect(await runCommand([...words, '--data-dir', folder])).toBe(2);
    expect(captured.errors).toContain(
      `shoal store copy --from ${folder} --to nats://127.0.0.1:1 --site new, or choose another folder`,
    );
    expect(captured.errors.trimEnd().split('\n').length).toBe(1);
    expect(readdirSync(join(folder, 'blobs'), { recursive: true })).toEqual(blobs);
    expect(blobs.length).toBeGreaterThan(1);
  } finally {
    await servers.close();
  }
});

it.skipIf(!hasNatsServer())('a server without the site’s invitation does not start', async () => {
  const nats = need(await startNatsServer(join(captured.folder, 'nats')));
  const log = (): void => {};
  try {
    const site = need(
      await openSite({ urls: [nats.url], site: 'closed', directory: join(captured.folder, 'one'), log }),
    );
    need(await site.lead());
    const { store } = site.data;
    need(new SiteInvite({ store, site: 'closed', invite: 'whale', isOpening: false, log }).lead(true));
    await store.kept();
    await site.close();
    expect(await runCommand(['serve', '--port', '0', '--nats', nats.url, '--site', 'closed'])).toBe(2);
    expect(captured.errors).toMatch(/^the runs of the site closed are by invitation: .*--open-to-all\n$/);
  } finally {
    await nats.stop();
  }
});

function need<T>(result: Result<T>): T {
  invariant(result.ok, result.ok ? '' : result.reason);
  return result.value;
}

async function folderWithRun(servers: TinyServers): Promise<string> {
  await addRun(await servers.data(), servers.runPath);
  servers.closeData();
  return servers.dataFolder;
}

const site = (active: string | null, ...beside: string[]) => ({
  activeRun: () => (active === null ? null : { name: active, document: '' }) as never,
  besideRuns: () => beside,
});

test('a run that trains beside is not the first one too, though it was chosen or is a file’s', () => {
  expect(firstRun(site('tiny'), 'other')).toEqual({ ok: true, value: 'other' });
  expect(firstRun(site('tiny', 'third'), 'other')).toEqual({ ok: true, value: 'other' });
  expect(firstRun(site('tiny', 'other'), 'other')).toEqual({ ok: true, value: 'tiny' });
  expect(firstRun(site(null, 'other'), 'other').ok).toBe(false);
  expect(firstRun(site('other', 'other'), 'other').ok).toBe(false);
});
