/** Texts that operators brought along to a site. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { invariant, type Result, success } from '../../swarm/base.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { broughtFiles, withTextFiles } from '../operator/draftText.ts';
import { listedTexts } from '../operator/texts.ts';
import { VirtualLink, VirtualNats } from '../testing/virtualNats.ts';
import { openSiteData } from './site.ts';

function need<T>(result: Result<T>): T {
  invariant(result.ok, result.ok ? '' : result.reason);
  return result.value;
}

it('a text that was brought along is there for whichever server leads next', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'shoal-texts-'));
  const nats = new VirtualNats();
  const open = async (work: string) => {
    const { shared } = new VirtualLink(nats, { random: () => 0.5, delayMs: 0, loss: 0 }, monotonicMs);
    return need(await openSiteData(shared, join(folder, work), () => {}));
  };
  const one = await open('one');
  need(await one.lead());
  const hash = await one.data.blobs.put(Buffer.from('The sea, the sea. '));
  const heldOutHash = await one.data.blobs.put(Buffer.from('The end. '));
  one.data.store.saveText({ name: 'sea', format: 'text', bytes: 18, hash, heldOutHash });
  await one.data.store.kept();
  await one.close();
  rmSync(join(folder, 'one'), { recursive: true });

  const other = await open('other');
  try {
    need(await other.lead());
    expect(listedTexts(other.data.store)).toEqual([{ name: 'sea', format: 'text', bytes: 18 }]);
    const read = await withTextFiles(other.data, need(broughtFiles(other.data.store, 'sea')), async (draftPath) =>
      success(['sea.txt', 'sea.held-out'].map((file) => readFileSync(join(dirname(draftPath), file), 'utf8'))),
    );
    expect(read).toEqual(success(['The sea, the sea. ', 'The end. ']));
  } finally {
    await other.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
