/**
 * Crowds of strangers against the built server, which a proxy tells of a thousand homes: the honest donors' commits go on,
 * whoever measures itself is let in, and the server's memory stays as it is. Counted in commits.
 */
import { expect, test } from 'vitest';
import { SCRIPTED_ADAPTER, SCRIPTED_PROFILE, ScriptedDonor } from '../signaling-server/testing/scriptedDonor.ts';
import { peerId } from '../swarm/base.ts';
import { NO_LIMITS } from '../swarm/limits.ts';
import { FRAME_BYTES, probeFrames } from '../swarm/messages/frame.ts';
import { HEARTBEAT_MS, PROTOCOL_VERSION } from '../swarm/messages/messages.ts';
import { encodeEnvelope } from '../swarm/messages/relay.ts';
import { CALL } from '../swarm/messages/signal.ts';
import { atTestEnd } from './product.ts';
import { Besieged, DeafDonor, measuredProfile, strangersAddress } from './strangers.ts';

const options = { timeout: 180_000 };
const HELLO = { type: 'hello', protocol: PROTOCOL_VERSION, adapter: SCRIPTED_ADAPTER } as const;
const DEAF = 250;
const SILENT = 1_000;
const GROWTH_BYTES = 200e6;

test('[SV3] 250 sockets that do not read fill no memory', options, async () => {
  const besieged = await Besieged.training({ honest: 2 });
  const before = await besieged.metric('shoal_resident_memory_bytes');
  const crowd = Array.from({ length: DEAF }, (_, number) => {
    const limits = { ...NO_LIMITS, downloadBytesPerSecond: 1e6 + number };
    const deaf = new DeafDonor(besieged.url, strangersAddress(number));
    deaf.say({ ...HELLO, limits });
    deaf.say({ type: 'measured', profile: SCRIPTED_PROFILE });
    return deaf;
  });
  const alive = setInterval(() => {
    for (const deaf of crowd) deaf.say({ type: 'heartbeat' });
  }, 5 * HEARTBEAT_MS);
  atTestEnd(() => clearInterval(alive));
  await besieged.commits(100);
  expect((await besieged.metric('shoal_resident_memory_bytes')) - before).toBeLessThan(GROWTH_BYTES);
});

test('[SV33] 1,000 that only say hello leave room for who measures itself', options, async () => {
  const besieged = await Besieged.training({ honest: 2 });
  for (let number = 0; number < SILENT; number++) new DeafDonor(besieged.url, strangersAddress(number)).say(HELLO);
  await besieged.commits(50);
  // A page that is told to come later does.
  for (let visit = 0; ; visit++) {
    const newcomer = besieged.donor({ address: strangersAddress(SILENT + visit), profile: measuredProfile(1) });
    const isIn = newcomer.hears('standby').then(() => true);
    if (await Promise.race([isIn, newcomer.closed.then(() => false)])) break;
  }
  await besieged.commits(50);
});

test('[WP40] signals that nobody asked for reach nobody', options, async () => {
  const besieged = await Besieged.training({ honest: 2 });
  const stranger = besieged.donor({ address: strangersAddress(1), profile: measuredProfile(1) });
  await stranger.hears('standby');
  const { epoch } = stranger.welcome;
  for (const { welcome } of besieged.honest)
    for (let attempt = 0; attempt < 100; attempt++)
      stranger.say({ type: 'signal', to: welcome.peer, epoch: epoch + (attempt % 3), attempt, data: CALL });
  await stranger.settled();
  for (const donor of besieged.honest) await donor.settled();
  expect(besieged.honest.map((donor) => donor.heardCount('signal'))).toEqual([0, 0]);
  await besieged.commits(20);
});

test('[WP43] frames of a tensor that the plan does not have are not relayed', options, async () => {
  const besieged = await Besieged.training({ honest: 1, stages: 2 });
  const [victim] = besieged.honest;
  if (!(victim instanceof ScriptedDonor)) throw new Error('there is an honest donor');
  const hostile = besieged.donor({ address: strangersAddress(1) });
  const { epoch } = await hostile.hears('start');
  // Whole messages that say they belong to tensors of 256 MiB each.
  for (const index of [0, 1]) {
    const claim = new Uint8Array(probeFrames(epoch)[0] ?? new ArrayBuffer(0)).slice();
    const view = new DataView(claim.buffer);
    view.setUint8(1, 0);
    view.setUint32(12, index, true);
    view.setUint32(20, 2 ** 26, true);
    expect(claim.length).toBe(FRAME_BYTES);
    hostile.sayRaw(encodeEnvelope('frame', peerId(victim.welcome.peer), claim));
  }
  await hostile.settled();
  await victim.settled();
  expect(victim.relayed.filter((bytes) => bytes.length > FRAME_BYTES)).toEqual([]);
  await besieged.commits(20);
});
