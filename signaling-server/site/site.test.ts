/** Sites over a real NATS. */
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { invariant, peerId, type Result } from '../../swarm/base.ts';
import type { CommitRecord } from '../../swarm/coordinator/events.ts';
import { JOURNAL_GONE } from '../files/storageProblem.ts';
import { freePort, hasNatsServer, type NatsServer, NO_NATS_SERVER, startNatsServer } from './natsServer.ts';
import { openSite, type Site } from './site.ts';
import { RETRY_MS } from './writer.ts';

function need<T>(result: Result<T>): T {
  invariant(result.ok, result.ok ? '' : result.reason);
  return result.value;
}

/** Of a run without files. */
const DOCUMENT = JSON.stringify({ data: { shards: [] }, evaluation: null, tokenizer: [] });
const MANIFEST = JSON.stringify({ step: 0, shards: [] });

const commit = (step: number): CommitRecord => ({
  ...{ step, loss: 5 - step / 10, gradientNorm: 1.5, learningRate: 0.001, tokens: 256, seconds: 0.25 },
  ...{ donors: 2, stages: 2, microBatches: 8, plan: 1, bytesDirect: 1_000, bytesRelayed: 0 },
});

if (!hasNatsServer()) console.warn(`The tests of sites are skipped: ${NO_NATS_SERVER}`);

describe.skipIf(!hasNatsServer())('a site', () => {
  let folder: string;
  let nats: NatsServer;
  let name = 0;
  const sites: Site[] = [];
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'shoal-site-'));
    nats = need(await startNatsServer(join(folder, 'nats')));
  });
  afterAll(async () => {
    await nats.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  beforeEach(() => {
    name += 1;
  });
  afterEach(async () => {
    for (const site of sites.splice(0)) await site.close();
  });
  let opened = 0;
  const open = async (): Promise<Site> => {
    opened += 1;
    const options = { urls: [nats.url], site: `s${name}`, directory: join(folder, `work-${opened}`), log: console.log };
    const site = need(await openSite(options));
    sites.push(site);
    return site;
  };

  it('what one server writes another one has, and who is followed by another leader writes nothing', async () => {
    const one = await open();
    need(await one.lead());
    const { store } = one.data;
    store.addRun('a', 'hash', DOCUMENT, MANIFEST, 0);
    for (const step of [0, 1, 2]) store.commitStep('a', commit(step), [{ peer: peerId('p'), tokens: 128.5 }]);
    await store.kept();
    const other = await open();
    expect(other.data.store.steps('a')).toEqual([commit(0), commit(1), commit(2)]);
    expect(() => other.data.store.saveEvaluation('a', 2, 4.5)).toThrow('another server of the site leads');
    store.saveEvaluation('a', 2, 4.5);
    await vi.waitUntil(() => other.data.store.evaluations('a').get(2) === 4.5);
    const fenced = new Promise<void>((resolve) => one.onFenced(resolve));
    need(await other.lead());
    await fenced;
    expect(() => store.saveEvaluation('a', 1, 9)).toThrow('another server of the site leads');
    other.data.store.saveEvaluation('a', 3, 4.25);
    await vi.waitUntil(() => store.evaluations('a').get(3) === 4.25);
    expect([...store.evaluations('a')]).toEqual([
      [2, 4.5],
      [3, 4.25],
    ]);
  });

  it('a blob that one server has put is fetched by another, also where its file is damaged', async () => {
    const one = await open();
    need(await one.lead());
    const bytes = new Uint8Array(300_000).map((_, index) => index % 251);
    const hash = await one.data.blobs.put(bytes);
    const other = await open();
    expect(Buffer.compare(await other.data.blobs.read(hash), bytes)).toBe(0);
    const path = other.data.blobs.path(hash);
    writeFileSync(path, 'damaged');
    expect(await other.data.blobs.problem(hash)).toBeNull();
    expect(Buffer.compare(readFileSync(path), bytes)).toBe(0);
    await one.data.blobs.remove(hash);
    rmSync(path);
    expect(await other.data.blobs.has(hash)).toBe(false);
  });

  it('NATS that is killed and started again costs nothing: what waited is kept once', async () => {
    const one = await open();
    need(await one.lead());
    const { store } = one.data;
    store.addRun('a', 'hash', DOCUMENT, MANIFEST, 0);
    await store.kept();
    await nats.kill();
    const stalled = new Promise<string>((resolve) => store.onStall(resolve));
    const said: number[] = [];
    for (const step of [0, 1, 2]) {
      store.commitStep('a', commit(step), [{ peer: peerId('p'), tokens: 128.5 }]);
      store.whenKept(() => said.push(step));
    }
    expect(await stalled).toBe('NATS does not answer');
    await expect(one.data.blobs.tryDisk()).rejects.toThrow('NATS does not answer');
    expect(said).toEqual([]);
    need(await nats.start());
    await store.kept();
    expect(said).toEqual([0, 1, 2]);
    await one.data.blobs.tryDisk();
    const other = await open();
    expect(other.data.store.steps('a')).toEqual([commit(0), commit(1), commit(2)]);
    expect(other.data.store.ledger('a')).toEqual([{ peer: 'p', tokens: 385.5 }]);
  });

  it('NATS without its streams keeps and says nothing, also made anew by a server that starts; with them put back all goes on', async () => {
    const one = await open();
    need(await one.lead());
    const { store } = one.data;
    store.addRun('a', 'hash', DOCUMENT, MANIFEST, 0);
    await store.kept();
    await nats.kill();
    const [streams, away] = [join(folder, 'nats', 'jetstream'), join(folder, 'away')];
    renameSync(streams, away);
    need(await nats.start());
    const said: number[] = [];
    store.commitStep('a', commit(0), [{ peer: peerId('p'), tokens: 128.5 }]);
    store.whenKept(() => said.push(0));
    const problem = (): Promise<string> =>
      one.data.blobs.tryDisk().then(
        () => 'none',
        (error: Error) => error.message,
      );
    await expect.poll(problem, { timeout: 20_000 }).toBe(JOURNAL_GONE);
    const other = await open();
    expect(other.data.store.runNames()).toEqual([]);
    await new Promise((resolve) => setTimeout(resolve, 3 * RETRY_MS));
    expect([await problem(), said]).toEqual([JOURNAL_GONE, []]);
    await sites.pop()?.close();
    await nats.kill();
    rmSync(streams, { recursive: true });
    renameSync(away, streams);
    need(await nats.start());
    await store.kept();
    expect(said).toEqual([0]);
    expect((await open()).data.store.steps('a')).toEqual([commit(0)]);
  });

  it('a cluster of three that has just begun, and one of which comes up later, is waited for', async () => {
    const ports = [await freePort(), await freePort(), await freePort()];
    const routes = [await freePort(), await freePort(), await freePort()];
    const cluster: NatsServer[] = [];
    const start = async (number: number): Promise<void> => {
      const more = [
        ...['--name', `n${number}`, '--cluster_name', 'c', '--cluster', `nats://127.0.0.1:${routes[number]}`],
        ...['--routes', routes.map((port) => `nats://127.0.0.1:${port}`).join(',')],
      ];
      cluster.push(need(await startNatsServer(join(folder, `cluster-${number}`), ports[number], more)));
    };
    try {
      const urls = ports.map((port) => `nats://127.0.0.1:${port}`);
      let told: (text: string) => void = () => {};
      const saysWhy = new Promise<string>((resolve) => {
        told = resolve;
      });
      const log = (_level: string, text: string): void => told(text);
      const opening = openSite({ urls, site: 'cluster', directory: join(folder, 'of-3'), patienceMs: 100_000, log });
      expect(await saysWhy).toMatch(/^NATS is not ready \(.+\): trying for \d+ s$/);
      await start(0);
      await start(1);
      await start(2);
      const site = need(await opening);
      sites.push(site);
      need(await site.lead());
      site.data.store.addRun('a', 'hash', DOCUMENT, MANIFEST, 0);
      await site.data.store.kept();
      expect(site.data.store.runNames()).toEqual(['a']);
      await sites.pop()?.close();
    } finally {
      for (const server of cluster) await server.stop();
    }
  });
});
