/** Pieces of a base over HTTP: to whom they go, and from which byte on. */
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { goldenFolder } from '../testing/goldenCase.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';

const servers = new TinyServers({ steps: 1 });
afterEach(() => servers.close());

test('[WI37] a piece of the base goes to donors alone, whole or from any byte on, and no other blob by this way', async () => {
  for (const name of ['lora-tiny', 'qwen3-tiny'])
    cpSync(goldenFolder(name), join(servers.folder, name), { recursive: true });
  const server = await servers.serve({}, join(servers.folder, 'lora-tiny', 'run.json'));
  const donor = new ScriptedDonor(server.url);
  donor.obedient = false;
  await donor.hears('prepare');
  const { base, data } = donor.welcome.run;
  const path = `/api/base/${base?.[0]?.pieces[0]}`;
  expect((await fetch(server.url + path)).status).toBe(401);
  for (const hash of ['0'.repeat(64), data.shards[0]])
    expect((await donor.fetch(`/api/base/${hash}`)).status).toBe(404);
  const whole = await donor.fetch(path);
  const bytes = new Uint8Array(await whole.arrayBuffer());
  expect([whole.status, bytes.length]).toEqual([200, 4 * 256 * 48]);
  const rest = await donor.fetch(path, { headers: { range: 'bytes=49000-' } });
  expect([rest.status, rest.headers.get('content-range')]).toEqual([206, 'bytes 49000-49151/49152']);
  expect(new Uint8Array(await rest.arrayBuffer())).toEqual(bytes.subarray(49_000));
  expect((await donor.fetch(path, { headers: { range: 'bytes=49152-' } })).status).toBe(416);
});
