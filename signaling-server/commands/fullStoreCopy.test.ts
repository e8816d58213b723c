/** `shoal store copy` where it cannot come to its end. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { invariant, type Result } from '../../swarm/base.ts';
import { hasNatsServer, startNatsServer } from '../site/natsServer.ts';
import { BUCKETS_BYTES } from '../site/siteAddresses.ts';
import { addRun } from '../store/dataDirectory.ts';
import { Captured } from '../testing/captured.ts';
import { TinyServers } from '../testing/tinyServers.ts';
import { runCommand } from './program.ts';

const captured = new Captured();
beforeEach(() => captured.begin());
afterEach(() => {
  vi.unstubAllEnvs();
  captured.end();
});

function need<T>(result: Result<T>): T {
  invariant(result.ok, result.ok ? '' : result.reason);
  return result.value;
}

it.skipIf(!hasNatsServer())('says in one sentence that NATS is full, however often it is tried', async () => {
  const servers = new TinyServers({ steps: 4 }, false);
  writeFileSync(join(dirname(servers.runPath), 'corpus.txt'), randomBytes(12e6).toString('latin1'));
  const scratch = join(captured.folder, 'scratch');
  mkdirSync(scratch);
  const limits = join(captured.folder, 'nats.conf');
  writeFileSync(limits, `jetstream { max_file_store: ${BUCKETS_BYTES + 3e6} }\n`);
  const nats = need(await startNatsServer(join(captured.folder, 'nats'), 0, ['-c', limits]));
  try {
    need(await addRun(await servers.data(), servers.runPath));
    servers.closeData();
    vi.stubEnv('TMPDIR', scratch);
    for (let tries = 0; tries < 3; tries++) {
      captured.clear();
      expect(await runCommand(['store', 'copy', '--from', servers.dataFolder, '--to', nats.url])).toBe(1);
      expect(captured.errors).toMatch(/^--to nats:.*NATS keeps nothing more: insufficient resources.*\n$/);
      expect(readdirSync(scratch)).toEqual([]);
    }
  } finally {
    await nats.stop();
    await servers.close();
  }
});
