import { expect, test } from 'vitest';
import { type PeerId, peerId } from '../../../swarm/base.ts';
import { ALICE, BOB, CAROL, openLinks, quiet, swarm } from '../testing/fakeSwarm.ts';
import type { Mesh } from './mesh.ts';
import { PROBE_LIMIT_MS } from './probes.ts';
import { CONNECT_LIMIT_MS, RETRY_FIRST_MS } from './way.ts';

const probe = (mesh: (peer: PeerId) => Mesh, one: PeerId, other: PeerId, epoch: number): Promise<boolean[]> =>
  Promise.all([mesh(one).openDirect(other, epoch), mesh(other).openDirect(one, epoch)]);

for (const [spare, member] of [
  [ALICE, BOB],
  [BOB, ALICE],
] as const) {
  test(`[WP18] ${spare}, who is in no plan, and ${member}, who is, measure their link; then it is closed again`, async () => {
    const { tab, clock, links, server } = swarm(ALICE, BOB, CAROL);
    tab(spare).mesh.allow(new Set());
    for (const peer of [member, CAROL]) tab(peer).mesh.allow(new Set([member, CAROL]));
    await Promise.all([tab(member).mesh.connect([CAROL], 4), tab(CAROL).mesh.connect([member], 4)]);
    const before = server.carried.length;
    expect(await probe((peer) => tab(peer).mesh, spare, member, 4)).toEqual([true, true]);
    expect(openLinks(links)).toHaveLength(4);
    const messages = [new ArrayBuffer(30), new ArrayBuffer(40)];
    expect(await tab(spare).mesh.measure(member, messages)).toMatchObject({ roundTripMs: 0 });
    await quiet();
    expect(tab(member).frames.map(({ bytes }) => bytes)).toEqual([30, 40]);
    expect(
      tab(member)
        .mesh.reports()
        .map(({ peer }) => peer),
    ).toEqual([CAROL]);
    clock.nowMs = PROBE_LIMIT_MS;
    for (const peer of [spare, member]) tab(peer).mesh.pulse();
    await quiet();
    expect(openLinks(links)).toHaveLength(2);
    expect([tab(spare).lost, tab(member).lost]).toEqual([[], []]);
    expect(await tab(spare).mesh.measure(member, messages)).toBeNull();
    // An offer and an answer; nothing was relayed, tried again or asked for since.
    clock.nowMs += 10 * RETRY_FIRST_MS;
    for (const peer of [spare, member]) tab(peer).mesh.pulse();
    expect(server.carried.length - before).toBe(2);
    expect(server.relayedFrames).toBe(0);
    // Once more, under the same epoch.
    expect(await probe((peer) => tab(peer).mesh, member, spare, 4)).toEqual([true, true]);
  });
}

test('[WP29] a link that does not open is not measured, and never relayed', async () => {
  const { tab, clock, links, server } = swarm(ALICE, BOB);
  for (const peer of [ALICE, BOB]) tab(peer).mesh.allow(new Set());
  server.swallow = true;
  const reached = probe((peer) => tab(peer).mesh, ALICE, BOB, 1);
  for (clock.nowMs = 0; clock.nowMs <= PROBE_LIMIT_MS; clock.nowMs += CONNECT_LIMIT_MS)
    for (const peer of [ALICE, BOB]) tab(peer).mesh.pulse();
  expect(await reached).toEqual([false, false]);
  expect(server.carried.map(({ data }) => data)).not.toContain('relayed');
  const again = probe((peer) => tab(peer).mesh, ALICE, BOB, 1);
  links.at(-1)?.strand();
  expect((await tab(ALICE).mesh.measure(BOB, [])) ?? 'nothing').toBe('nothing');
  for (const peer of [ALICE, BOB]) tab(peer).mesh.close();
  expect(await again).toEqual([false, false]);
  expect(server.carried.map(({ data }) => data)).not.toContain('relayed');
});

test('[WP18] a plan that wants the link takes it over; one that does not closes it', async () => {
  const { tab, links } = swarm(ALICE, BOB, CAROL);
  await probe((peer) => tab(peer).mesh, ALICE, BOB, 2);
  await probe((peer) => tab(peer).mesh, ALICE, CAROL, 2);
  await Promise.all([tab(ALICE).mesh.connect([BOB], 3), tab(BOB).mesh.connect([ALICE], 3)]);
  await quiet();
  expect(links).toHaveLength(4);
  expect(openLinks(links)).toHaveLength(2);
  await tab(ALICE).mesh.send(BOB, new ArrayBuffer(7));
  await quiet();
  expect(tab(BOB).frames).toEqual([{ from: ALICE, bytes: 7 }]);
  expect(await tab(ALICE).mesh.openDirect(BOB, 3)).toBe(false);
});

test('[WP18] [WP29] a plan has the link from when it is told: the end that is slow to connect does not close it', async () => {
  const { tab, clock, links } = swarm(ALICE, BOB);
  for (const peer of [ALICE, BOB]) tab(peer).mesh.allow(new Set());
  await probe((peer) => tab(peer).mesh, ALICE, BOB, 2);
  for (const [peer, other] of [
    [ALICE, BOB],
    [BOB, ALICE],
  ] as const)
    tab(peer).mesh.allow(new Set([other]));
  await tab(ALICE).mesh.connect([BOB], 3);
  for (let i = 0; i < 20; i++) await tab(ALICE).mesh.send(BOB, new ArrayBuffer(7)); // more than a measurement
  clock.nowMs = PROBE_LIMIT_MS;
  for (const peer of [ALICE, BOB]) tab(peer).mesh.pulse();
  await quiet();
  await tab(BOB).mesh.connect([ALICE], 3);
  expect(tab(BOB).frames).toHaveLength(20);
  expect([openLinks(links).length, tab(ALICE).lost, tab(BOB).lost]).toEqual([2, [], []]);
});

test('[WP18] links that were measured and closed take nobody’s room', async () => {
  const { tab, clock, links } = swarm(BOB);
  for (let i = 0; i < 300; i++) {
    void tab(BOB).mesh.openDirect(peerId(`a${i}`), 1);
    tab(BOB).mesh.signalled(peerId(`a${i}`), 1, 0, 'offer none');
    clock.nowMs += PROBE_LIMIT_MS;
    tab(BOB).mesh.pulse();
  }
  expect(links).toHaveLength(300);
  expect(tab(BOB).mesh.refusals.strangers).toBe(0);
});

test('[WP18] the other end may begin before this one’s worker has heard of it; what it sends is bounded', async () => {
  const { tab, links } = swarm(ALICE, BOB);
  for (const peer of [ALICE, BOB]) tab(peer).mesh.allow(new Set());
  tab(BOB).mesh.signalled(ALICE, 1, 0, 'offer none');
  expect(tab(BOB).mesh.refusals.strangers).toBe(1);
  for (const [peer, other] of [
    [ALICE, BOB],
    [BOB, ALICE],
  ] as const)
    tab(peer).mesh.probeAsked(other);
  const first = tab(ALICE).mesh.openDirect(BOB, 1);
  await quiet();
  expect(openLinks(links)).toHaveLength(2);
  expect(await Promise.all([first, tab(BOB).mesh.openDirect(ALICE, 1)])).toEqual([true, true]);
  for (let i = 0; i < 20; i++)
    await tab(ALICE)
      .mesh.measure(BOB, [new ArrayBuffer(9)])
      .catch(() => null);
  await quiet();
  expect(tab(BOB).frames).toHaveLength(8);
  expect(openLinks(links)).toHaveLength(0);
});
