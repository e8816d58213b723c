/** Calls that are refused, of clients who are gone before the answer is on its way. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, it, vi } from 'vitest';
import { TinyServers } from './tinyServers.ts';

it.each([
  ['a link for viewers, asked for without a session,', 'POST /api/operator/viewer'],
  ['a part of the state, asked for without a token,', 'HEAD /api/state/0/layer.0?kind=values&from=0&to=1'],
])('%s is refused alone, though its client left before it heard so', async (_what, call) => {
  const servers = new TinyServers({ steps: 4 }, false);
  try {
    const data = await servers.data();
    let isAsked = false;
    let keep = (): void => {};
    const kept = new Promise<void>((resolve) => {
      keep = resolve;
    });
    // As where something waits for NATS.
    const store = {
      ...data.store,
      kept: () => {
        isAsked = true;
        return kept;
      },
    };
    const said: string[] = [];
    const server = await servers.serve({ data: { ...data, store }, log: (_level, text) => said.push(text) });
    said.length = 0;
    const audit = vi.spyOn(store, 'addEvent');
    const arrived = once(server.http, 'connection');
    const client = connect(Number(new URL(server.url).port), 'localhost');
    const [socket] = (await arrived) as [Socket];
    const closed = once(socket, 'close');
    const origin = `Host: ${new URL(server.url).host}\r\nOrigin: ${server.url}`;
    client.write(`${call} HTTP/1.1\r\n${origin}\r\n\r\n`);
    await vi.waitUntil(() => isAsked);
    client.destroy();
    await closed;
    for (let turns = 0; turns < 20; turns++) await turn();
    keep();
    for (let turns = 0; turns < 20; turns++) await turn();
    expect([audit.mock.calls, said]).toEqual([[], []]);
  } finally {
    await servers.close();
  }
});
