/** What processes of a site know of addresses together, over a real NATS. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { invariant, type Result } from '../../swarm/base.ts';
import { Invitation } from '../donors/invitation.ts';
import { JoinDelays } from '../donors/joinDelays.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { connectNats } from './natsConnection.ts';
import { hasNatsServer, NO_NATS_SERVER, startNatsServer } from './natsServer.ts';
import { Patience } from './patience.ts';
import { openAddresses, siteInvitations, siteLosses } from './siteAddresses.ts';

const [BAD, GOOD] = ['192.0.2.1', '192.0.2.2'];
const WAIT = { timeout: 20_000 };

function contentOf<T>(result: Result<T>): T {
  invariant(result.ok, result.ok ? '' : result.reason);
  return result.value;
}

const NATS = hasNatsServer();
const titled = (title: string): string => (NATS ? title : `skipped: ${NO_NATS_SERVER}`);
const DAY_MS = 86_400_000;

const releases: (() => unknown)[] = [];
afterEach(async () => {
  for (const release of releases.splice(0).reverse()) await release();
});

/** Opens processes of a site that has no others. */
async function site() {
  const folder = mkdtempSync(join(tmpdir(), 'shoal-losses-'));
  releases.push(() => rmSync(folder, { recursive: true, force: true }));
  const nats = contentOf(await startNatsServer(folder));
  releases.push(() => nats.stop());
  return async () => {
    const connection = contentOf(await connectNats({ urls: [nats.url] }, new Patience(0, () => {})));
    releases.push(() => connection.close());
    const { losses, invitations } = await openAddresses(connection, 's', 1);
    const delays = new JoinDelays(siteLosses(losses));
    const wrong = siteInvitations(invitations);
    const said = (word: string | undefined, address: string) => new Invitation('fish', wrong).problem(word, address);
    return { connection, waitMs: (address: string) => delays.waitMs(address, monotonicMs()), delays, wrong, said };
  };
}

test.skipIf(!NATS)(
  titled(
    'an address that has to wait at one process waits at every other, at one that comes later, and after all were gone',
  ),
  { timeout: 60_000 },
  async () => {
    const process = await site();
    const [one, other] = [await process(), await process()];
    for (let loss = 0; loss < 4; loss++) one.delays.lost(BAD, monotonicMs(), monotonicMs());
    const waitMs = one.waitMs(BAD);
    expect(waitMs).toBeGreaterThan(60_000);
    await expect.poll(() => Math.abs(other.waitMs(BAD) - waitMs), WAIT).toBeLessThan(15_000);
    other.delays.convicted(BAD, monotonicMs());
    await expect.poll(() => one.waitMs(BAD), WAIT).toBeGreaterThan(200_000);
    await Promise.all([one, other].map(({ connection }) => connection.close()));
    const later = await process();
    await expect.poll(() => later.waitMs(BAD), WAIT).toBeGreaterThan(200_000);
    expect([one, other, later].map(({ waitMs }) => waitMs(GOOD))).toEqual([0, 0, 0]);
  },
);

test.skipIf(!NATS).each([DAY_MS, -DAY_MS])(
  titled('the clocks of processes are set by %i ms: an address waits there as long as elsewhere'),
  { timeout: 60_000 },
  async (jumpMs) => {
    const process = await site();
    const one = await process();
    // NATS is another process, whose clock stays as it is.
    vi.useFakeTimers({ toFake: ['Date'] });
    releases.push(() => vi.useRealTimers());
    vi.setSystemTime(Date.now() + jumpMs);
    const other = await process();
    one.delays.convicted(BAD, monotonicMs());
    await expect.poll(() => other.waitMs(BAD), WAIT).toBeGreaterThan(200_000);
    const later = await process();
    await expect.poll(() => later.waitMs(BAD), WAIT).toBeGreaterThan(200_000);
    for (const { waitMs } of [other, later]) expect(waitMs(BAD)).toBeLessThanOrEqual(300_000);
  },
);

test.skipIf(!NATS)(
  titled('an address says forty wrong invitations a minute at all processes together, also at one that comes later'),
  { timeout: 60_000 },
  async () => {
    const process = await site();
    const [one, other] = [await process(), await process()];
    // Both count at once: no process's number may take the place of another's.
    for (let guess = 0; guess < 20; guess++)
      for (const { said } of [one, other]) expect(said(`word ${guess}`, BAD)).toBe('notInvited');
    await expect.poll(() => [one, other].map(({ wrong }) => wrong.count(BAD)), WAIT).toEqual([40, 40]);
    const later = await process();
    await expect.poll(() => later.wrong.count(BAD), WAIT).toBe(40);
    for (const { said } of [one, other, later]) {
      expect(said('fish', BAD)).toBe('wrongInvitations');
      expect(said('fish', GOOD)).toBeNull();
    }
  },
);
