/** [SV60] [SV61] What the machine cannot keep is waited for: nothing is lost, nobody is late, and it goes on by itself. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Store } from '../store/store.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';

const STEPS = 6;
/** As the store's own library says it. */
const FULL = Object.assign(new Error('database or disk is full'), { sqliteExtendedCode: 13 });
const NO_SPACE = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });

let servers: TinyServers;
beforeEach(() => {
  servers = new TinyServers({ steps: STEPS, checkpointEverySteps: 2 });
});
afterEach(() => servers.close());

/** As long as `isFull` says so. */
function failing<Name extends 'commitStep' | 'saveCheckpoint' | 'saveEpoch' | 'addEvent'>(store: Store, name: Name) {
  const disk = { isFull: false, tries: 0 };
  const kept = store[name] as (...values: unknown[]) => unknown;
  Object.assign(store, {
    [name]: (...values: unknown[]) => {
      disk.tries += 1;
      if (disk.isFull) throw FULL;
      return kept(...values);
    },
  });
  return disk;
}

describe('[SV60] a disk that is full', () => {
  it.each(['commitStep', 'saveCheckpoint', 'saveEpoch', 'addEvent'] as const)(
    'costs no step and no donor when %s cannot be kept',
    async (name) => {
      const metricsPath = join(servers.folder, 'metrics.jsonl');
      const data = await servers.data();
      const disk = failing(data.store, name);
      const lines: string[] = [];
      const server = await servers.serve({ metricsPath, log: (_, text) => void lines.push(text) });
      const blobs = vi.spyOn(data.blobs, 'tryDisk');
      blobs.mockRejectedValueOnce(NO_SPACE);
      disk.isFull = true;
      const donor = await ScriptedDonor.joined(server.url);
      await vi.waitUntil(() => lines.some((line) => line.includes('stands: its disk is full')), { timeout: 60_000 });
      const { phase, sentence } = server.run.snapshot();
      expect({ phase, sentence }).toEqual({
        phase: 'paused',
        sentence:
          'The server cannot keep anything now: its disk is full. Nothing is lost, and the run goes on by itself when that is mended.',
      });
      // Not yet: the first try of the disk fails too.
      disk.isFull = false;
      expect(await donor.hears('standby')).toEqual({ type: 'standby', state: 'finished' });
      expect(blobs).toHaveBeenCalledTimes(2);
      const { store } = data;
      expect(store.steps('tiny', 0).map(({ step }) => step)).toEqual([0, 1, 2, 3, 4, 5]);
      const metrics = readFileSync(metricsPath, 'utf8').trim().split('\n');
      expect(metrics.map((line) => JSON.parse(line).step)).toEqual([0, 1, 2, 3, 4, 5]);
      expect(store.run('tiny')?.generation).toBe(0);
      expect(lines.filter((line) => line.includes('should not'))).toEqual([]);
    },
  );

  it('[SV61] lets the server stop at once, and the next one goes on from what was kept', async () => {
    const data = await servers.data();
    const disk = failing(data.store, 'commitStep');
    const server = await servers.serve();
    disk.isFull = true;
    await ScriptedDonor.joined(server.url);
    await vi.waitUntil(() => server.run.snapshot().phase === 'paused', { timeout: 60_000 });
    await server.close();
    disk.isFull = false;
    const next = await servers.serve();
    const donor = await ScriptedDonor.joined(next.url);
    expect(await donor.hears('standby')).toEqual({ type: 'standby', state: 'finished' });
    expect(data.store.steps('tiny', 0)).toHaveLength(STEPS);
  });

  it('[SV60] an upload that cannot be kept stands everything too: whoever sent it is not late', async () => {
    const data = await servers.data();
    const { putStream } = data.blobs;
    let isFull = true;
    data.blobs.putStream = async (chunks) => {
      if (!isFull) return putStream(chunks);
      for await (const _ of chunks);
      throw NO_SPACE;
    };
    const server = await servers.serve();
    const donor = await ScriptedDonor.joined(server.url);
    await vi.waitUntil(() => server.run.snapshot().phase === 'paused', { timeout: 60_000 });
    isFull = false;
    expect(await donor.hears('standby')).toEqual({ type: 'standby', state: 'finished' });
    expect(server.run.refused.newest).toEqual([]);
  });
});
