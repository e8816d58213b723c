import { describe, expect, test } from 'vitest';
import { arrayOf, type PeerId, peerId } from '../../../swarm/base.ts';
import { FRAME_BYTES } from '../../../swarm/messages/frame.ts';
import { encodeEnvelope } from '../../../swarm/messages/relay.ts';
import type { FakeConnection } from '../testing/fakeLink.ts';
import { ALICE, BOB, CAROL, openLinks, quiet, swarm } from '../testing/fakeSwarm.ts';
import { PARTING_MS } from './planPeers.ts';
import { ATTEMPT_LIMIT_MS, CONNECT_LIMIT_MS, RETRY_FIRST_MS, SOON_MS } from './way.ts';

describe('Mesh', () => {
  test('[WP21] opens one link a pair, whoever connects first', async () => {
    const { tab, links } = swarm(ALICE, BOB, CAROL);
    const second = tab(BOB).mesh.connect([ALICE, CAROL], 1);
    await quiet();
    await Promise.all([second, tab(ALICE).mesh.connect([BOB, CAROL], 1), tab(CAROL).mesh.connect([ALICE, BOB], 1)]);
    expect(openLinks(links)).toHaveLength(6);
    await tab(ALICE).mesh.send(CAROL, new ArrayBuffer(40));
    await tab(CAROL).mesh.send(BOB, new ArrayBuffer(50));
    await quiet();
    expect(tab(CAROL).frames).toEqual([{ from: ALICE, bytes: 40 }]);
    expect(tab(BOB).frames).toEqual([{ from: CAROL, bytes: 50 }]);
  });

  test('[WP21] connecting to nobody is done at once', async () => {
    const { tab } = swarm(ALICE);
    await expect(tab(ALICE).mesh.connect([], 1)).resolves.toBeUndefined();
  });

  test('[WP21] keeps open links through a new epoch, closes those not wanted any more', async () => {
    const { tab, links } = swarm(ALICE, BOB, CAROL);
    await Promise.all([
      tab(ALICE).mesh.connect([BOB, CAROL], 1),
      tab(BOB).mesh.connect([ALICE], 1),
      tab(CAROL).mesh.connect([ALICE], 1),
    ]);
    const before = links.length;
    await Promise.all([tab(ALICE).mesh.connect([BOB], 2), tab(BOB).mesh.connect([ALICE], 2)]);
    await quiet();
    expect(links).toHaveLength(before);
    expect(openLinks(links)).toHaveLength(2);
    expect(tab(ALICE).lost).toEqual([]);
    expect(tab(CAROL).lost).toEqual([ALICE]);
    await expect(tab(ALICE).mesh.send(CAROL, new ArrayBuffer(1))).rejects.toThrow('no link');
  });

  test('[WP26] says once that an open link is lost, and opens it again at the next epoch', async () => {
    const { tab, links } = swarm(ALICE, BOB);
    await Promise.all([tab(ALICE).mesh.connect([BOB], 1), tab(BOB).mesh.connect([ALICE], 1)]);
    links[0]?.break('the network is gone');
    await quiet();
    expect([tab(ALICE).lost, tab(BOB).lost]).toEqual([[BOB], [ALICE]]);
    await Promise.all([tab(ALICE).mesh.connect([BOB], 2), tab(BOB).mesh.connect([ALICE], 2)]);
    expect(openLinks(links)).toHaveLength(2);
  });

  for (const vanishing of [ALICE, BOB]) {
    test(`[WP21] heals a link that only ${vanishing} knows to be gone`, async () => {
      const { tab, links } = swarm(ALICE, BOB);
      await Promise.all([tab(ALICE).mesh.connect([BOB], 1), tab(BOB).mesh.connect([ALICE], 1)]);
      const of = (peer: PeerId): FakeConnection | undefined => links.find((link) => link.peer !== peer);
      of(vanishing)?.vanish();
      expect(openLinks(links)).toHaveLength(1);
      await Promise.all([tab(ALICE).mesh.connect([BOB], 2), tab(BOB).mesh.connect([ALICE], 2)]);
      await quiet();
      expect(openLinks(links)).toHaveLength(2);
      await tab(vanishing).mesh.send(vanishing === ALICE ? BOB : ALICE, new ArrayBuffer(9));
      await quiet();
      expect(tab(vanishing === ALICE ? BOB : ALICE).frames).toHaveLength(1);
    });
  }

  test('[WP51] connects by as many connections as the plan counts on, one where it does not say; without, after 15 s', async () => {
    const { tab, clock, server, links } = swarm(ALICE, BOB, CAROL);
    const streams = new Map([[BOB, 3]]);
    const connecting = [
      tab(ALICE).mesh.connect([BOB, CAROL], 1, [], streams),
      tab(BOB).mesh.connect([ALICE], 1, [], new Map([[ALICE, 3]])),
      tab(CAROL).mesh.connect([ALICE], 1),
    ];
    await Promise.all(connecting);
    expect(openLinks(links)).toHaveLength(2 * 3 + 2);
    const reported = tab(ALICE).mesh.reports();
    expect(reported.map(({ peer, streams }) => [peer, streams])).toEqual([
      [BOB, 3],
      [CAROL, undefined],
    ]);
    // The next plan counts on more, and their signals lead nowhere.
    server.swallow = true;
    let connected = false;
    const more = tab(ALICE)
      .mesh.connect([BOB], 2, [], new Map([[BOB, 5]]))
      .then(() => {
        connected = true;
      });
    clock.nowMs = CONNECT_LIMIT_MS - 1;
    tab(ALICE).mesh.pulse();
    await quiet();
    expect(connected).toBe(false);
    clock.nowMs = CONNECT_LIMIT_MS;
    tab(ALICE).mesh.pulse();
    await more;
    expect(tab(ALICE).mesh.reports()).toMatchObject([{ peer: BOB, route: 'direct', streams: 3 }]);
    expect(links.filter(({ peer, state }) => peer === BOB && state === 'open')).toHaveLength(3);
    expect(tab(ALICE).lost).toEqual([]);
  });

  test('[CO52] keeps no link with whom the server says it should reach through it, and takes none of theirs', async () => {
    const { tab, links } = swarm(ALICE, BOB, CAROL);
    const connect = (epoch: number, relayed: readonly PeerId[]) =>
      Promise.all([
        tab(ALICE).mesh.connect([BOB, CAROL], epoch, relayed),
        tab(BOB).mesh.connect([ALICE, CAROL], epoch),
        tab(CAROL).mesh.connect([ALICE, BOB], epoch),
      ]);
    await connect(1, []);
    // Bob has not heard of it yet: he calls again, and Alice does not answer.
    const again = connect(2, [BOB]);
    await quiet();
    expect(links.filter((link) => link.state === 'open' && link.peer === BOB)).toHaveLength(1);
    expect(
      tab(ALICE)
        .mesh.reports()
        .map(({ peer, route, why }) => [peer, route, why]),
    ).toEqual([
      [BOB, 'relayed', 'server'],
      [CAROL, 'direct', undefined],
    ]);
    again.catch(() => undefined);
    await tab(ALICE).mesh.send(BOB, new ArrayBuffer(40));
    await quiet();
    expect(tab(BOB).frames).toEqual([{ from: ALICE, bytes: 40 }]);
    expect(tab(ALICE).lost).toEqual([]);
  });

  test('[WP14] relays after 15 s without a direct link, and not before', async () => {
    const { tab, clock, server } = swarm(ALICE, BOB);
    server.swallow = true;
    let connected = false;
    const connecting = tab(ALICE)
      .mesh.connect([BOB], 1)
      .then(() => {
        connected = true;
      });
    clock.nowMs = CONNECT_LIMIT_MS - 1;
    tab(ALICE).mesh.pulse();
    await quiet();
    expect(connected).toBe(false);
    clock.nowMs = CONNECT_LIMIT_MS;
    tab(ALICE).mesh.pulse();
    await connecting;
    await tab(ALICE).mesh.send(BOB, new ArrayBuffer(70));
    await quiet();
    expect(tab(BOB).frames).toEqual([{ from: ALICE, bytes: 70 }]);
    expect(tab(ALICE).mesh.reports()).toMatchObject([{ peer: BOB, route: 'relayed', why: 'noAnswer' }]);
  });

  test.each(['noAddress', 'noConnection'] as const)(
    '[WP14] an end with %s relays at once, and so does the other',
    async (why) => {
      const { tab, links, server } = swarm(ALICE, BOB);
      server.swallow = true; // their offer leads nowhere
      const both = [tab(ALICE).mesh.connect([BOB], 1), tab(BOB).mesh.connect([ALICE], 1)];
      await quiet();
      server.swallow = false;
      links.find(({ peer }) => peer === BOB)?.strand(why);
      await Promise.all(both);
      expect(server.carried.at(-1)).toMatchObject({ from: ALICE, to: BOB, data: 'relayed' });
      expect(tab(ALICE).mesh.reports()).toMatchObject([{ route: 'relayed', why }]);
      expect(tab(BOB).mesh.reports()).toMatchObject([{ route: 'relayed', why: 'otherEnd' }]);
      await tab(BOB).mesh.send(ALICE, new ArrayBuffer(50));
      await quiet();
      expect(tab(ALICE).frames).toEqual([{ from: BOB, bytes: 50 }]);
      expect(server.relayedFrames).toBe(1);
    },
  );

  test('[WP25] tries the direct way again behind what is relayed, and changes over between two steps only', async () => {
    const { tab, clock, links, server } = swarm(ALICE, BOB);
    const pulse = async (): Promise<void> => {
      for (const peer of [ALICE, BOB]) tab(peer).mesh.pulse();
      await quiet();
    };
    server.swallow = true;
    const both = [tab(ALICE).mesh.connect([BOB], 1), tab(BOB).mesh.connect([ALICE], 1)];
    clock.nowMs = CONNECT_LIMIT_MS;
    await pulse();
    await Promise.all(both);
    server.swallow = false;
    clock.nowMs = ATTEMPT_LIMIT_MS;
    await pulse();
    expect(links.every(({ state }) => state === 'closed')).toBe(true);
    clock.nowMs += RETRY_FIRST_MS;
    await pulse();
    expect(openLinks(links)).toHaveLength(2);
    await tab(ALICE).mesh.send(BOB, new ArrayBuffer(40));
    await quiet();
    expect(server.relayedFrames).toBe(1);
    tab(ALICE).mesh.changeOver();
    await tab(ALICE).mesh.send(BOB, new ArrayBuffer(41));
    await tab(BOB).mesh.send(ALICE, new ArrayBuffer(42)); // the other end changes at its own time
    await quiet();
    expect(tab(BOB).frames.map(({ bytes }) => bytes)).toEqual([40, 41]);
    expect(tab(ALICE).frames.map(({ bytes }) => bytes)).toEqual([42]);
    expect(server.relayedFrames).toBe(2);
    expect(tab(ALICE).mesh.reports()).toMatchObject([{ peer: BOB, route: 'direct' }]);
  });

  test('[WP14] a link that fails while a connect waits is begun again until the deadline', async () => {
    const { tab, clock, links, server } = swarm(ALICE, BOB);
    server.swallow = true;
    const both = [tab(ALICE).mesh.connect([BOB], 1), tab(BOB).mesh.connect([ALICE], 1)];
    links[0]?.break('no candidate pair worked');
    server.swallow = false;
    clock.nowMs = SOON_MS;
    tab(ALICE).mesh.pulse();
    await Promise.all(both);
    expect(openLinks(links)).toHaveLength(2);
    expect(server.carried.map(({ attempt }) => attempt)).toContain(1);
  });

  test('[WP25] a pair that is relayed does not wait again for the direct way at the next epoch', async () => {
    const { tab, clock, server } = swarm(ALICE, BOB);
    server.swallow = true;
    const connecting = tab(ALICE).mesh.connect([BOB], 1);
    clock.nowMs = CONNECT_LIMIT_MS;
    tab(ALICE).mesh.pulse();
    await connecting;
    await tab(ALICE).mesh.connect([BOB], 2);
    expect(tab(ALICE).mesh.reports()).toMatchObject([{ route: 'relayed' }]);
  });

  test('[WP14] a lost link is waited for again, not relayed at once', async () => {
    const { tab, clock, links } = swarm(ALICE, BOB);
    await Promise.all([tab(ALICE).mesh.connect([BOB], 1), tab(BOB).mesh.connect([ALICE], 1)]);
    clock.nowMs = 100_000;
    links[0]?.break('the network is gone');
    await quiet();
    for (const peer of [ALICE, BOB]) tab(peer).mesh.pulse();
    await expect(tab(ALICE).mesh.send(BOB, new ArrayBuffer(1))).rejects.toThrow('no link');
    await Promise.all([tab(ALICE).mesh.connect([BOB], 2), tab(BOB).mesh.connect([ALICE], 2)]);
    expect(tab(ALICE).mesh.reports()).toMatchObject([{ route: 'direct' }]);
  });

  test('[WP10] what is relayed passes a credit window of 256 KiB, in order', async () => {
    const { tab, clock, server } = swarm(ALICE, BOB);
    server.swallow = true;
    const connecting = tab(ALICE).mesh.connect([BOB], 1);
    clock.nowMs = CONNECT_LIMIT_MS;
    tab(ALICE).mesh.pulse();
    await connecting;
    const sizes = arrayOf(40, (i) => FRAME_BYTES - i);
    const sends = sizes.map((bytes) => tab(ALICE).mesh.send(BOB, new ArrayBuffer(bytes)));
    expect(server.relayedFrames).toBe(0);
    await Promise.all(sends);
    await quiet();
    expect(tab(BOB).frames.map(({ bytes }) => bytes)).toEqual(sizes);
  });

  test('[WP21] a newer epoch takes the place of a connect that still waits', async () => {
    const { tab, server, links } = swarm(ALICE, BOB);
    server.swallow = true;
    const first = expect(tab(ALICE).mesh.connect([BOB], 1)).rejects.toThrow('epoch 2 took the place of epoch 1');
    await quiet();
    server.swallow = false;
    // Bob never saw the offer of epoch 1: his call under epoch 2 makes Alice begin again.
    await Promise.all([first, tab(ALICE).mesh.connect([BOB], 2), tab(BOB).mesh.connect([ALICE], 2)]);
    expect(openLinks(links)).toHaveLength(2);
  });

  test('[WP21] drops signals of an older attempt, and counts them', async () => {
    const { tab, server, links } = swarm(ALICE, BOB, CAROL);
    server.swallow = true;
    tab(ALICE)
      .mesh.connect([BOB], 1)
      .catch(() => {});
    await quiet();
    const [stale] = server.carried;
    server.swallow = false;
    await Promise.all([tab(ALICE).mesh.connect([BOB], 3), tab(BOB).mesh.connect([ALICE], 3)]);
    const before = links.length;
    tab(BOB).mesh.signalled(ALICE, stale?.epoch ?? 0, 0, stale?.data ?? '');
    tab(BOB).mesh.signalled(CAROL, 2, 0, 'offer 0');
    await quiet();
    expect(tab(BOB).mesh.refusals.staleSignals).toBe(2);
    expect(links).toHaveLength(before);
    expect(openLinks(links)).toHaveLength(2);
  });

  test('[WP21] what is left of an ended attempt begins nothing', async () => {
    const { tab, links } = swarm(ALICE, BOB);
    await Promise.all([tab(ALICE).mesh.connect([BOB], 1), tab(BOB).mesh.connect([ALICE], 1)]);
    links[0]?.break('gone');
    await quiet();
    const before = links.length;
    tab(BOB).mesh.signalled(ALICE, 1, 0, 'offer 0');
    tab(ALICE).mesh.signalled(BOB, 2, 0, 'answer 1');
    expect(links).toHaveLength(before);
  });

  test('[WP6] drops messages longer than a frame, and counts them', async () => {
    const { tab } = swarm(ALICE, BOB);
    await Promise.all([tab(ALICE).mesh.connect([BOB], 1), tab(BOB).mesh.connect([ALICE], 1)]);
    await tab(ALICE).mesh.send(BOB, new ArrayBuffer(FRAME_BYTES + 1));
    await tab(ALICE).mesh.send(BOB, new ArrayBuffer(FRAME_BYTES));
    await quiet();
    expect(tab(BOB).frames).toEqual([{ from: ALICE, bytes: FRAME_BYTES }]);
    expect(tab(BOB).mesh.refusals.oversizedMessages).toBe(1);
  });

  test('[WP46] of who is no partner neither links nor frames are taken, direct or relayed', async () => {
    const { tab, links } = swarm(BOB, CAROL);
    for (let i = 0; i < 300; i++) tab(BOB).mesh.signalled(peerId(`a${i}`), 1, 0, 'offer none');
    expect(links).toHaveLength(0);
    expect(tab(BOB).mesh.refusals.strangers).toBe(300);
    await Promise.all([tab(BOB).mesh.connect([CAROL], 1), tab(CAROL).mesh.connect([BOB], 1)]);
    tab(BOB).mesh.allow(new Set());
    await tab(CAROL).mesh.send(BOB, new ArrayBuffer(9));
    tab(BOB).mesh.onBytes(encodeEnvelope('frame', CAROL, new Uint8Array(9)).buffer);
    await quiet();
    expect(tab(BOB).frames).toEqual([]);
    await expect(tab(BOB).mesh.connect([CAROL], 2)).rejects.toThrow('took the place');
  });

  test('[WP46] a link that no plan wants any more stays for ten seconds, and nobody calls it lost', async () => {
    const { tab, clock, links } = swarm(ALICE, BOB);
    await Promise.all([tab(ALICE).mesh.connect([BOB], 1), tab(BOB).mesh.connect([ALICE], 1)]);
    tab(ALICE).mesh.allow(new Set());
    for (const nowMs of [0, PARTING_MS - 1]) {
      clock.nowMs = nowMs;
      tab(ALICE).mesh.pulse();
    }
    expect(openLinks(links)).toHaveLength(2);
    tab(BOB).mesh.allow(new Set());
    clock.nowMs = PARTING_MS;
    tab(ALICE).mesh.pulse();
    await quiet();
    expect(openLinks(links)).toHaveLength(0);
    expect([tab(ALICE).lost, tab(BOB).lost]).toEqual([[], []]);
  });

  test('[WP47] of who is barred nothing is taken until the next plan', async () => {
    const { tab, links } = swarm(ALICE, BOB);
    await Promise.all([tab(ALICE).mesh.connect([BOB], 1), tab(BOB).mesh.connect([ALICE], 1)]);
    tab(BOB).mesh.bar(ALICE);
    await quiet();
    expect(openLinks(links)).toHaveLength(0);
    tab(BOB).mesh.signalled(ALICE, 1, 1, 'offer none');
    tab(BOB).mesh.onBytes(encodeEnvelope('frame', ALICE, new Uint8Array(9)).buffer);
    expect([links.length, tab(BOB).frames]).toEqual([2, []]);
    await Promise.all([tab(BOB).mesh.connect([ALICE], 2), tab(ALICE).mesh.connect([BOB], 2)]);
    expect(openLinks(links)).toHaveLength(2);
  });

  test('[WP5] a pulse pings open links; silence for 15 s loses them', async () => {
    const { tab, clock, links } = swarm(ALICE, BOB);
    await Promise.all([tab(ALICE).mesh.connect([BOB], 1), tab(BOB).mesh.connect([ALICE], 1)]);
    tab(ALICE).mesh.pulse();
    await quiet();
    links.find(({ peer }) => peer === ALICE)?.vanish();
    for (const nowMs of [20_000, 27_000, 34_999]) {
      clock.nowMs = nowMs;
      tab(ALICE).mesh.pulse();
    }
    await quiet();
    expect(tab(ALICE).lost).toEqual([]);
    clock.nowMs = 35_000;
    tab(ALICE).mesh.pulse();
    expect(tab(ALICE).lost).toEqual([BOB]);
  });

  test('[WP21] a closed mesh has no links and takes no calls', async () => {
    const { tab, links } = swarm(ALICE, BOB);
    await Promise.all([tab(ALICE).mesh.connect([BOB], 1), tab(BOB).mesh.connect([ALICE], 1)]);
    tab(ALICE).mesh.close();
    await quiet();
    expect(openLinks(links)).toHaveLength(0);
    expect(tab(ALICE).lost).toEqual([]);
    await expect(tab(ALICE).mesh.connect([BOB], 2)).rejects.toThrow('closed');
    await expect(tab(ALICE).mesh.send(BOB, new ArrayBuffer(1))).rejects.toThrow('no link');
  });
});
