/** A site whose NATS has no room left. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { invariant, type Result } from '../../swarm/base.ts';
import { NotKept } from '../files/storageProblem.ts';
import { hasNatsServer, NO_NATS_SERVER, startNatsServer } from './natsServer.ts';
import { openSite, type Site } from './site.ts';
import { BUCKETS_BYTES } from './siteAddresses.ts';

const FULL = 'NATS keeps nothing more: insufficient resources';

function need<T>(result: Result<T>): T {
  invariant(result.ok, result.ok ? '' : result.reason);
  return result.value;
}

it.skipIf(!hasNatsServer())(
  `NATS without room says so, is asked again at times, and what waited is kept once there is room${hasNatsServer() ? '' : `: skipped, ${NO_NATS_SERVER}`}`,
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'shoal-full-'));
    const file = join(folder, 'nats.conf');
    const allow = (bytes: number): void => writeFileSync(file, `jetstream { max_file_store: ${bytes} }\n`);
    allow(BUCKETS_BYTES + 3e6);
    const nats = need(await startNatsServer(join(folder, 'nats'), 0, ['-c', file]));
    const options = { urls: [nats.url], site: 'full', log: console.log };
    const open: Site[] = [];
    const openIn = async (name: string): Promise<Site> => {
      const site = need(await openSite({ ...options, directory: join(folder, name) }));
      open.push(site);
      return site;
    };
    try {
      const site = await openIn('work');
      const { store, blobs } = site.data;
      need(await site.lead());
      const fill = async (): Promise<never> => {
        for (;;) await blobs.put(randomBytes(500_000));
      };
      await expect(fill()).rejects.toThrow(new NotKept(FULL));
      const stalled = new Promise<string>((resolve) => store.onStall(resolve));
      const text = 'x'.repeat(1_000_000);
      store.addEvent('a', 'joined', JSON.stringify({ text }), 3, 0);
      let isSaid = false;
      store.whenKept(() => {
        isSaid = true;
      });
      expect(await stalled).toBe(FULL);
      await expect(blobs.tryDisk()).rejects.toThrow(new NotKept(FULL));
      expect(isSaid).toBe(false);
      const second = await openIn('second');
      expect(await second.lead()).toEqual({ ok: false, reason: `this server cannot lead the site: ${FULL}` });
      allow(100e6);
      await nats.stop();
      need(await nats.start());
      await vi.waitUntil(() => isSaid, { timeout: 60_000 });
      await blobs.tryDisk();
      const other = await openIn('other');
      expect(other.data.store.events('a', 'joined', 0)).toEqual([JSON.stringify({ text })]);
    } finally {
      for (const site of open.reverse()) await site.close();
      await nats.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  },
);
