import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { invariant, peerId, type Result } from '../../swarm/base.ts';
import { hasNatsServer, startNatsServer } from '../site/natsServer.ts';
import { addRun, openDataDirectory } from '../store/dataDirectory.ts';
import { TinyServers } from '../testing/tinyServers.ts';
import { runCommand } from './program.ts';

function need<T>(result: Result<T>): T {
  invariant(result.ok, result.ok ? '' : result.reason);
  return result.value;
}

let folder: string;
let written: string[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-store-copy-'));
  written = [];
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => written.push(String(text)) > 0);
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => written.push(String(text)) > 0);
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true, force: true });
});

/** Of all that it has, and whether its files are whole. */
async function contentOf(path: string): Promise<unknown> {
  const data = need(await openDataDirectory(path, false));
  const blobs = await data.blobs.list();
  const problems = await Promise.all(blobs.map((hash) => data.blobs.problem(hash)));
  const content = data.store.content();
  data.close();
  return { content, blobs, problems: problems.filter((problem) => problem !== null) };
}

describe('shoal store copy', () => {
  it.skipIf(!hasNatsServer())('moves all of a data directory to a site and back', async () => {
    const servers = new TinyServers({ steps: 4 }, false);
    const nats = need(await startNatsServer(join(folder, 'nats')));
    try {
      const data = await servers.data();
      need(await addRun(data, servers.runPath));
      data.store.setActive('tiny');
      data.store.commitStep(
        'tiny',
        {
          ...{ step: 0, loss: 1 / 3, gradientNorm: 1.5, learningRate: 1e-3, tokens: 32, seconds: 0.25, donors: 1 },
          ...{ stages: 1, microBatches: 1, plan: 1, bytesDirect: 0, bytesRelayed: 0 },
        },
        [{ peer: peerId('p'), tokens: 32 }],
      );
      data.store.saveMember({ id: 'one', name: 'Ada', team: '' }, 1);
      data.store.linkMember('tiny', peerId('p'), 'one');
      data.store.addEvent('tiny', 'joined', '{}', 3, 0);
      servers.closeData();
      // A text that was brought along, as earlier versions kept it.
      const texts = join(servers.dataFolder, 'texts');
      mkdirSync(texts);
      writeFileSync(join(texts, 'sea.txt'), 'The sea, the sea. ');
      writeFileSync(join(texts, 'sea.held-out'), 'The end. ');
      const before = await contentOf(servers.dataFolder);
      const back = join(folder, 'back');
      const copy = (from: string, to: string) => runCommand(['store', 'copy', '--from', from, '--to', to]);
      expect([await copy(servers.dataFolder, nats.url), written]).toEqual([
        0,
        [expect.stringContaining('copied tiny')],
      ]);
      // Not in that site.
      expect(await runCommand(['store', 'copy', '--from', nats.url, '--to', back, '--site', 'other'])).toBe(1);
      expect(written.at(-1)).toBe(`--from ${nats.url}, site other: has no run\n`);
      expect(existsSync(back)).toBe(false);
      // There are runs now.
      expect(await copy(servers.dataFolder, nats.url)).toBe(1);
      expect(written.at(-1)).toBe(
        `--to ${nats.url}, site shoal: there are runs already where they are to be copied to (tiny): copy to a place without any\n`,
      );
      expect(await copy(nats.url, back)).toBe(0);
      expect(await contentOf(back)).toEqual(before);
      const moved = need(await openDataDirectory(back, false));
      const [sea] = moved.store.texts();
      expect([sea?.name, sea?.bytes]).toEqual(['sea', 18]);
      expect(String(await moved.blobs.read(sea?.heldOutHash ?? ''))).toBe('The end. ');
      moved.close();
      expect(readdirSync(texts)).toEqual([]);
      expect((before as { blobs: unknown[]; problems: unknown[] }).blobs.length).toBeGreaterThan(1);
      expect((before as { problems: unknown[] }).problems).toEqual([]);
    } finally {
      await nats.stop();
      await servers.close();
    }
  });

  it.each<[string[], string]>([
    [['--from', 'a', '--to', 'b'], 'one of --from and --to must be a data directory, the other nats://HOST:PORT\n'],
    [
      ['--from', 'nats://x', '--to', 'nats://y'],
      'one of --from and --to must be a data directory, the other nats://HOST:PORT\n',
    ],
    [['--from', '/no/such', '--to', 'nats://127.0.0.1:1'], '--from /no/such: there is no such folder\n'],
    [
      ['--from', import.meta.dirname, '--to', 'nats://127.0.0.1:1'],
      `--from ${import.meta.dirname} holds no runs: it has no shoal.sqlite\n`,
    ],
    ...['nats://127.0.0.1:99999', 'nats://[::1', 'nats://user%:x@h', 'nats://us%ffer:x@h'].map(
      (url): [string[], string] => [
        ['--from', url, '--to', 'a'],
        'a NATS must be nats://HOST:PORT or tls://HOST:PORT, with commas between them\n',
      ],
    ),
    [
      ['--from', 'nats://h', '--to', 'a', '--site', 'Ä'],
      '"Ä" is no name of a site: expected up to 32 of a-z, 0-9 and hyphens between them\n',
    ],
    [['--from', 'a'], "required option '--to <place>' not specified\n"],
  ])('refuses %j in one sentence', async (words, sentence) => {
    expect([await runCommand(['store', 'copy', ...words]), written]).toEqual([2, [sentence]]);
  });
});
