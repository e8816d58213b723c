/** What the machine cannot keep is waited for: nothing is lost, nobody is late, and it goes on by itself. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { chooseRun } from '../commands/servedRun.ts';
import { NotKept } from '../files/storageProblem.ts';
import { createServer } from '../server.ts';
import { addRun } from '../store/dataDirectory.ts';
import type { Store } from '../store/store.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers, tinyRunFile } from '../testing/tinyServers.ts';

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
function failing<
  Name extends 'commitStep' | 'saveCheckpoint' | 'saveEpoch' | 'addEvent' | 'saveSetting' | 'saveTraces',
>(store: Store, name: Name) {
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

/** Whatever writes throws; answers with what did. */
function fillDisk(store: Store): string[] {
  const written: string[] = [];
  for (const [name, call] of Object.entries(store)) {
    if (typeof call !== 'function' || name === 'close') continue;
    const filled = (...values: unknown[]): unknown => {
      const before = store.version();
      const answer = (call as (...values: unknown[]) => unknown)(...values);
      if (store.version() === before) return answer;
      written.push(name);
      throw FULL;
    };
    if (name !== 'version') Object.assign(store, { [name]: filled });
  }
  return written;
}

describe('a disk that is full', () => {
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
      const { phase, sentence, cannotSave } = server.run.snapshot();
      expect({ phase, sentence, cannotSave }).toEqual({
        ...{ phase: 'paused', cannotSave: true },
        sentence:
          'The server cannot keep anything now: its disk is full. Nothing is lost, and the run goes on by itself when that is mended.',
      });
      expect(() => server.run.command('resume')).toThrow(new NotKept('its disk is full'));
      // Not yet: the first try of the disk fails too.
      disk.isFull = false;
      expect(await donor.hears('standby')).toEqual({ type: 'standby', state: 'finished' });
      expect(blobs).toHaveBeenCalledTimes(2);
      const { store } = data;
      expect(store.history('tiny', 0, 200).filter(({ kind }) => kind === 'operator')).toEqual([]);
      expect(server.run.snapshot()).not.toHaveProperty('cannotSave');
      expect(store.steps('tiny', 0).map(({ step }) => step)).toEqual([0, 1, 2, 3, 4, 5]);
      const metrics = readFileSync(metricsPath, 'utf8').trim().split('\n');
      expect(metrics.map((line) => JSON.parse(line).step)).toEqual([0, 1, 2, 3, 4, 5]);
      expect(store.run('tiny')?.generation).toBe(0);
      expect(lines.filter((line) => line.includes('should not'))).toEqual([]);
    },
  );

  it('lets the server stop at once, and the next one goes on from what was kept', async () => {
    const data = await servers.data();
    const disk = failing(data.store, 'commitStep');
    const traces = failing(data.store, 'saveTraces');
    const lines: string[] = [];
    const server = await servers.serve({ log: (_, text) => void lines.push(text) });
    await ScriptedDonor.joined(server.url);
    await server.run.until(({ committedSteps }) => committedSteps === 2);
    disk.isFull = true;
    traces.isFull = true;
    await vi.waitUntil(() => server.run.snapshot().phase === 'paused', { timeout: 60_000 });
    await server.close();
    expect(traces.tries).toBe(1);
    expect(lines.filter((line) => line.includes('could not be kept'))).toEqual([
      'The last lines of the metrics file, or what the last steps took, could not be kept: its disk is full.',
    ]);
    disk.isFull = false;
    traces.isFull = false;
    const next = await servers.serve();
    const donor = await ScriptedDonor.joined(next.url);
    expect(await donor.hears('standby')).toEqual({ type: 'standby', state: 'finished' });
    expect(data.store.steps('tiny', 0)).toHaveLength(STEPS);
  });

  it('who worked on while the run stood, for longer than its step took by then, is not mistaken', async () => {
    const data = await servers.data();
    let stall: (problem: string) => void = () => undefined;
    Object.assign(data.store, {
      onStall: (told: typeof stall) => {
        stall = told;
        return () => undefined;
      },
    });
    let isFull = false;
    vi.spyOn(data.blobs, 'tryDisk').mockImplementation(async () => {
      if (isFull) throw NO_SPACE;
    });
    const server = await servers.serve();
    const donor = await ScriptedDonor.joined(server.url, { stepMs: 2_500 });
    await donor.hears('start');
    isFull = true;
    stall('its disk is full');
    await vi.waitUntil(() => server.run.snapshot().phase === 'paused');
    await sleep(3_000); // its step is over by then
    isFull = false;
    await server.run.until(({ committedSteps }) => committedSteps === 2);
    expect(data.store.steps('tiny', 0).map(({ step }) => step)).toEqual([0, 1]);
    expect(donor.received.filter(({ type }) => type === 'prepare')).toHaveLength(1);
  });

  it('an upload that cannot be kept stands everything too: whoever sent it is not late', async () => {
    const data = await servers.data();
    const putStream = data.blobs.putStream.bind(data.blobs);
    let isFull = true;
    let tries = 0;
    data.blobs.putStream = async (chunks) => {
      if (!isFull) return putStream(chunks);
      tries += 1;
      for await (const _ of chunks);
      throw NO_SPACE;
    };
    const lines: string[] = [];
    const server = await servers.serve({ log: (_, text) => void lines.push(text) });
    const donor = await ScriptedDonor.joined(server.url);
    await vi.waitUntil(() => server.run.snapshot().phase === 'paused', { timeout: 60_000 });
    await vi.waitUntil(() => tries > 2, { timeout: 60_000 });
    isFull = false;
    expect(await donor.hears('standby')).toEqual({ type: 'standby', state: 'finished' });
    expect(server.run.refused.newest).toEqual([]);
    expect(lines.filter((line) => line.includes('cannot be kept'))).toHaveLength(1); // a minute
  });

  it('is no reason not to begin: the run is served, and stands at its first write', async () => {
    await (await servers.serve()).close();
    servers.closeData();
    const { store } = await servers.data();
    const written = fillDisk(store);
    const lines: string[] = [];
    const server = await servers.serve({ publicView: 'status', log: (_, text) => void lines.push(text) });
    expect(written).toEqual([]);
    expect((await fetch(`${server.url}/api/status`)).status).toBe(200);
    const donor = await ScriptedDonor.joined(server.url);
    await vi.waitUntil(() => server.run.snapshot().cannotSave, { timeout: 60_000 });
    expect((await fetch(`${server.url}/readyz`)).status).toBe(503);
    expect(donor.received.filter(({ type }) => type === 'refused')).toEqual([]);
    expect(lines.filter((line) => line.includes('should not'))).toEqual([]);
  });

  it('refuses another run in one sentence, and the server may go on with its own', async () => {
    const first = await servers.serve();
    await first.close();
    servers.writeRun(tinyRunFile({ name: 'other', steps: STEPS }));
    const data = await servers.data();
    const other = await addRun(data, servers.runPath);
    const written = fillDisk(data.store);
    const reason = `the data directory ${servers.dataFolder} cannot be written: its disk is full`;
    const begun = await createServer({ data, runName: 'other', port: 0, log: () => {} });
    expect([other.ok, begun]).toEqual([true, { ok: false, reason }]);
    servers.writeRun(tinyRunFile({ name: 'third', steps: STEPS }));
    await expect(chooseRun(data, servers.runPath, () => {})).rejects.toThrow(reason);
    expect(written).toEqual(['setActive', 'addRun']);
  });

  it('is said where people and load balancers look, and lets an operator in', async () => {
    const { store, blobs } = await servers.data();
    vi.spyOn(blobs, 'tryDisk').mockRejectedValue(NO_SPACE);
    const [events, sessions] = [failing(store, 'addEvent'), failing(store, 'saveSetting')];
    const server = await servers.serve({ publicView: 'status' });
    const answer = async (path: string) => {
      const response = await fetch(`${server.url}${path}`);
      return [response.status, await response.json()];
    };
    expect((await answer('/readyz'))[0]).toBe(200);
    events.isFull = true;
    sessions.isFull = true;
    const login = await fetch(`${server.url}/api/operator/login`, {
      method: 'POST',
      body: JSON.stringify({ token: server.operatorToken() }),
      headers: { 'content-type': 'application/json', origin: server.url },
    });
    expect(login.status).toBe(200);
    const reason =
      'The server cannot keep anything now: its disk is full. Nothing is lost, and the run goes on by itself when that is mended.';
    expect(await answer('/readyz')).toEqual([503, { ok: false, phase: 'waiting', reason }]);
    expect((await answer('/healthz'))[0]).toBe(200);
    expect((await answer('/api/status'))[1]).toMatchObject({ phase: 'paused', cannotSave: true, sentence: reason });
    const headers = {
      cookie: login.headers.get('set-cookie')?.split(';')[0] ?? '',
      ...{ origin: server.url, 'content-type': 'application/json' },
    };
    expect((await fetch(`${server.url}/api/snapshot`, { headers })).status).toBe(200);
    const body = JSON.stringify({ command: 'pause' });
    const command = await fetch(`${server.url}/api/operator/command`, { method: 'POST', body, headers });
    expect([command.status, await command.json()]).toEqual([
      503,
      { error: 'the server cannot keep this now, because its disk is full: try again later' },
    ]);
  });
});
