/** Copies into a site in which somebody else begins meanwhile. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { invariant, type Result, refusal } from '../../swarm/base.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { openSiteData, type SiteData } from '../site/site.ts';
import { TinyServers } from '../testing/tinyServers.ts';
import { VirtualLink, VirtualNats } from '../testing/virtualNats.ts';
import { addRun, type DataDirectory, openDataDirectory } from './dataDirectory.ts';
import { copyData } from './storeCopy.ts';

const DOCUMENT = JSON.stringify({ data: { shards: [] }, evaluation: null, tokenizer: [] });
const MANIFEST = JSON.stringify({ step: 0, shards: [] });

function need<T>(result: Result<T>): T {
  invariant(result.ok, result.ok ? '' : result.reason);
  return result.value;
}

let folder: string;
let nats: VirtualNats;
let from: DataDirectory;
const links: VirtualLink[] = [];
const sites: SiteData[] = [];
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-copies-'));
  nats = new VirtualNats();
  from = need(await openDataDirectory(join(folder, 'from'), false));
  from.store.addRun('a', 'hash', DOCUMENT, MANIFEST, 0);
});
afterEach(async () => {
  for (const site of sites.splice(0)) await site.close();
  links.length = 0;
  from.close();
  rmSync(folder, { recursive: true, force: true });
});

async function open(): Promise<SiteData> {
  const link = new VirtualLink(nats, { random: () => 0.5, delayMs: 0, loss: 0 }, monotonicMs);
  const site = need(await openSiteData(link.shared, join(folder, `work-${links.push(link)}`), () => {}));
  sites.push(site);
  return site;
}

const OTHER_LEADS = refusal('nothing is copied: another server of the site leads. When that is mended, copy again');

it('another leads before anything was written: that is said', async () => {
  const one = await open();
  need(await one.lead());
  const other = await open();
  const fenced = new Promise<void>((resolve) => one.onFenced(resolve));
  need(await other.lead());
  await fenced;
  expect(await copyData(from, one.data)).toEqual(OTHER_LEADS);
  expect(await copyData(from, other.data)).toEqual({ ok: true, value: { runs: ['a'], blobs: 0 } });
});

it('another leads before what was written is kept: that is said, and nothing is there', async () => {
  const one = await open();
  need(await one.lead());
  const other = await open();
  const [link] = links;
  if (link) link.isCut = true;
  const copied = copyData(from, one.data);
  need(await other.lead());
  if (link) link.isCut = false;
  expect(await copied).toEqual(OTHER_LEADS);
  expect(other.data.store.runNames()).toEqual([]);
});

it('what is never kept is given up, with the reason', async () => {
  const servers = new TinyServers({ steps: 4 }, false);
  const from = await servers.data();
  const to = need(await openDataDirectory(`${servers.folder}/to`, false));
  try {
    need(await addRun(from, servers.runPath));
    const store: typeof to.store = {
      ...to.store,
      kept: () => new Promise(() => {}),
      onStall: (listener) => {
        listener('NATS does not answer');
        return () => {};
      },
    };
    expect(await copyData(from, { ...to, store }, [], 1)).toEqual({
      ok: false,
      reason: 'nothing is copied: NATS does not answer. When that is mended, copy again',
    });
  } finally {
    to.close();
    await servers.close();
  }
});
