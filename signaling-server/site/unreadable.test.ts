/** Messages in a site's journal that no server wrote, and such as a person deleted. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { invariant, type Result, refusal } from '../../swarm/base.ts';
import { hasNatsServer, type NatsServer, NO_NATS_SERVER, startNatsServer } from './natsServer.ts';
import { openSite, type Site } from './site.ts';

const FROM_BACKUP =
  'stop all servers and fill another site from a backup (shoal store copy --from DIR --to nats://… --site NAME)';

function need<T>(result: Result<T>): T {
  invariant(result.ok, result.ok ? '' : result.reason);
  return result.value;
}

if (!hasNatsServer()) console.warn(`The tests of unreadable journals are skipped: ${NO_NATS_SERVER}`);

describe.skipIf(!hasNatsServer())('a journal', () => {
  let folder: string;
  let nats: NatsServer;
  let opened = 0;
  const sites: Site[] = [];
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'shoal-unreadable-'));
    nats = need(await startNatsServer(join(folder, 'nats')));
  });
  afterAll(async () => {
    await nats.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  afterEach(async () => {
    for (const site of sites.splice(0)) await site.close();
  });
  const tryOpen = (site: string, log: (text: string) => void = () => {}): ReturnType<typeof openSite> => {
    opened += 1;
    const directory = join(folder, `work-${opened}`);
    return openSite({ urls: [nats.url], site, directory, log: (_level, text) => log(text) });
  };
  const open = async (site: string, log?: (text: string) => void): Promise<Site> => {
    const made = need(await tryOpen(site, log));
    sites.push(made);
    return made;
  };

  const replicaIn = (work: string): string =>
    join(
      work,
      readdirSync(work, { recursive: true, encoding: 'utf8' }).find((name) => /replica-\d+\.sqlite$/.test(name)) ?? '',
    );

  it('with a message that is none of shoal’s is named by stream and number, and goes on once a person deleted it', async () => {
    const said: string[] = [];
    const one = await open('garbage', (text) => said.push(text));
    need(await one.lead());
    one.data.store.saveSetting('note a', 'before');
    await one.data.store.kept();
    const stream = 'shoal-garbage-journal';
    const manager = await jetstreamManager(one.nats);
    const { seq } = await jetstream(one.nats).publish(`${stream}.entry`, 'garbage');
    const sentence = `message ${seq} of the NATS stream ${stream} is none of shoal's: delete that message (nats stream rmm ${stream} ${seq}), or ${FROM_BACKUP}`;
    await expect.poll(() => said).toEqual([`This server can neither lead nor follow: ${sentence}.`]);
    expect(await tryOpen('garbage')).toEqual(refusal(sentence));

    await manager.streams.deleteMessage(stream, seq);
    const other = await open('garbage');
    expect(other.data.store.note('a')).toBe('before');
    need(await one.lead());
    one.data.store.saveSetting('note a', 'after');
    await one.data.store.kept();
    await expect.poll(() => other.data.store.note('a')).toBe('after');
    // Not at its end any more.
    expect((await open('garbage')).data.store.note('a')).toBe('after');
    expect(said).toHaveLength(1);
  });

  it('with a message whose statement the store refuses is named the same way', async () => {
    const said: string[] = [];
    const one = await open('refused', (text) => said.push(text));
    need(await one.lead());
    one.data.store.saveSetting('note a', 'before');
    await one.data.store.kept();
    const stream = 'shoal-refused-journal';
    const database = new DatabaseSync(replicaIn(join(folder, `work-${opened}`)), { readOnly: true });
    const first = Number(database.prepare('PRAGMA application_id').get()?.application_id) + 1;
    database.close();
    const head = JSON.stringify({ by: 'nobody', entry: 1, part: 0, parts: 1 });
    const body = JSON.stringify({ first, sql: ['INSERT INTO nowhere VALUES (?)'], transactions: [[[0, 1]]] });
    const { seq } = await jetstream(one.nats).publish(`${stream}.entry`, `${head}\n${body}`);
    const sentence = `message ${seq} of the NATS stream ${stream} has a statement that the store refuses (no such table: nowhere): delete that message (nats stream rmm ${stream} ${seq}), or ${FROM_BACKUP}`;
    expect(await tryOpen('refused')).toEqual(refusal(sentence));
    await (await jetstreamManager(one.nats)).streams.deleteMessage(stream, seq);
    expect((await open('refused')).data.store.note('a')).toBe('before');
  });

  it('with such a message first of all is deleted as a whole', async () => {
    const { nats: connection } = await open('another');
    const manager = await jetstreamManager(connection);
    const stream = 'shoal-first-journal';
    await manager.streams.add({ name: stream, subjects: [`${stream}.entry`] });
    await jetstream(connection).publish(`${stream}.entry`, '{"by":1}\n{}');
    expect(await tryOpen('first')).toEqual(
      refusal(
        `message 1 of the NATS stream ${stream} is none of shoal's: delete that stream (nats stream rm ${stream}), or ${FROM_BACKUP}`,
      ),
    );
    await manager.streams.delete(stream);
    need(await (await open('first')).lead());
  });

  it('that lacks transactions is not gone on with', async () => {
    const one = await open('gap');
    need(await one.lead());
    for (const note of ['first', 'second', 'third']) {
      one.data.store.saveSetting('note a', note);
      await one.data.store.kept();
    }
    const stream = 'shoal-gap-journal';
    const manager = await jetstreamManager(one.nats);
    const { state } = await manager.streams.info(stream);
    await manager.streams.deleteMessage(stream, state.last_seq - 1);
    expect(await tryOpen('gap')).toEqual(
      refusal(
        `message ${state.last_seq} of the NATS stream ${stream} follows on others that are not there: ${FROM_BACKUP}`,
      ),
    );
  });
});
