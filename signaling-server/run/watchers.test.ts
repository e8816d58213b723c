/** What is shown of a run whose site keeps its steps, with NATS in memory: never more than another server would find. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { invariant, type Result } from '../../swarm/base.ts';
import { statusOf } from '../headless/trainingServer.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { createServer } from '../server.ts';
import { openSiteData, type SiteData } from '../site/site.ts';
import { addRun } from '../store/dataDirectory.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';
import { VirtualLink, VirtualNats } from '../testing/virtualNats.ts';
import { Watchers } from './watchers.ts';

let folder: string;
let servers: TinyServers;
const endings: (() => unknown)[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-shown-'));
  servers = new TinyServers({ steps: 100_000 }, false);
});
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
  await servers.close();
  rmSync(folder, { recursive: true, force: true });
});

function need<T>(result: Result<T>): T {
  invariant(result.ok, result.ok ? '' : result.reason);
  return result.value;
}

async function openOver(nats: VirtualNats, name: string): Promise<{ site: SiteData; link: VirtualLink }> {
  const link = new VirtualLink(nats, { random: () => 0.5, delayMs: 0, loss: 0 }, monotonicMs);
  const site = need(await openSiteData(link.shared, join(folder, name), () => {}));
  endings.push(() => site.data.close());
  return { site, link };
}

it('a step that is committed and not kept is shown to nobody: whoever leads next stands where everybody was told', async () => {
  const nats = new VirtualNats();
  const [one, other] = [await openOver(nats, 'one'), await openOver(nats, 'other')];
  need(await one.site.lead());
  const { data } = one.site;
  const runName = need(await addRun(data, servers.runPath));
  const { run, url, close } = need(await createServer({ data, runName, port: 0, log: () => {} }));
  endings.push(close);
  const donor = await ScriptedDonor.joined(url);
  // No commit is on its way to NATS at this moment.
  await run.until(({ committedSteps, kept }) => committedSteps > 1 && kept.committedSteps === committedSteps);
  one.link.isCut = true;
  const shown = () => {
    const { snapshot, announcedStep } = statusOf(run);
    return [snapshot.committedSteps, announcedStep];
  };
  const before = shown();
  const told: unknown[] = [];
  run.onChange(() => told.push(shown()));
  await vi.waitUntil(() => run.committedSteps > Number(before[0]), { timeout: 30_000 });
  expect(shown()).toEqual(before);
  for (const now of told) expect(now).toEqual(before);
  const heard = donor.received.flatMap((message) => (message.type === 'committed' ? message.step : []));
  expect(Math.max(...heard)).toBeLessThan(Number(before[0]));
  // The leader is lost now.
  need(await other.site.lead());
  expect(other.site.data.store.committedSteps(runName)).toBe(before[0]);
});

it('one state waits at a time, and the newest one is shown after it', () => {
  const waiting: (() => void)[] = [];
  let newest = 0;
  const watchers = new Watchers({ whenKept: (say) => void waiting.push(say) }, () => newest);
  const told: number[] = [];
  watchers.add(() => told.push(watchers.kept));
  for (newest = 1; newest <= 3; newest++) watchers.changed();
  newest = 3;
  expect([watchers.kept, waiting.length]).toEqual([0, 1]);
  waiting.shift()?.();
  expect([told, waiting.length]).toEqual([[1], 1]);
  waiting.shift()?.();
  expect([told, waiting.length]).toEqual([[1, 3], 0]);
});
