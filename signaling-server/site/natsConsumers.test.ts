import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { expect, test, vi } from 'vitest';
import { invariant, totalOf } from '../../swarm/base.ts';
import { openNatsFolder } from './natsFolder.ts';
import { openNatsJournal } from './natsJournal.ts';
import { hasNatsServer, startNatsServer } from './natsServer.ts';

test.skipIf(!hasNatsServer())('what is read of a site leaves no consumer at NATS', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'shoal-consumers-'));
  const started = await startNatsServer(folder, 0);
  invariant(started.ok, 'it starts');
  const nats = await connect({ servers: started.value.url });
  try {
    const manager = await jetstreamManager(nats);
    const counted = async (): Promise<number> => {
      const streams = await manager.streams.list().next();
      return totalOf(streams, ({ state }) => state.consumer_count);
    };
    const { journal, replicas } = await openNatsJournal(nats, 'site');
    const blobs = await openNatsFolder(nats, 'blobs', replicas);
    const bytes = new Uint8Array(300_000).fill(7);
    await blobs.put('one', [bytes].values() as never);
    for (let time = 0; time < 5; time++) {
      const sequence = time + 1;
      await journal.append({ sequence, bytes });
      for await (const message of journal.read(1)) expect(message.bytes.length).toBe(bytes.length);
      const chunks = await blobs.get('one');
      invariant(chunks, 'it is there');
      let read = 0;
      for await (const chunk of chunks) read += chunk.length;
      expect([read, await blobs.list()]).toEqual([bytes.length, ['one']]);
      // Nor what is given up half read.
      for await (const _ of (await blobs.get('one')) ?? []) break;
      await new Promise<void>((resolve) => {
        const end = journal.follow(sequence, () => {
          end();
          resolve();
        });
      });
    }
    await vi.waitUntil(async () => (await counted()) === 0, { timeout: 5_000 });
  } finally {
    await nats.close();
    await started.value.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});
