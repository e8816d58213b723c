import { expect, it, vi } from 'vitest';
import { NotKept, NotLeading } from '../files/storageProblem.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';
import { closeAll } from './runObserver.ts';

it('a server that leads no more complains of nothing that whoever leads keeps', () => {
  const said: string[] = [];
  const failing = (error: Error) => ({
    close: () => {
      throw error;
    },
  });
  const run = { warn: (text: string) => void said.push(text), failed: () => {} };
  closeAll([failing(new NotLeading('another server leads'))], run);
  expect(said).toEqual([]);
  closeAll([failing(new NotKept('NATS does not answer'))], run);
  expect(said).toEqual([expect.stringContaining('NATS does not answer')]);
});

it('what a run did is logged once it is kept, and never where it is not', async () => {
  const servers = new TinyServers({ steps: 1_000 }, false);
  try {
    const lines: string[] = [];
    const { store } = await servers.data();
    const server = await servers.serve({ log: (_, text) => void lines.push(text) });
    const donor = await ScriptedDonor.joined(server.url);
    await server.run.until(({ committedSteps }) => committedSteps > 1);
    expect(lines.some((line) => line.startsWith('Plan 1 '))).toBe(true);
    const waiting: (() => void)[] = [];
    store.whenKept = (say) => void waiting.push(say);
    donor.leave();
    await vi.waitUntil(() => server.run.phase === 'waiting');
    const told = (): boolean => lines.some((line) => /^\S+ is gone: /.test(line));
    expect(told()).toBe(false);
    for (const say of waiting.splice(0)) say();
    expect(told()).toBe(true);
  } finally {
    await servers.close();
  }
});
