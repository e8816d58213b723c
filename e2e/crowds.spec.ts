/** A crowd of strangers against the built server, which a proxy tells of their homes: its memory stays as it is. */

import { expect, test } from 'vitest';
import { SCRIPTED_ADAPTER, SCRIPTED_PROFILE } from '../signaling-server/testing/scriptedDonor.ts';
import { arrayOf } from '../swarm/base.ts';
import { NO_LIMITS } from '../swarm/limits.ts';
import { HEARTBEAT_MS, PROTOCOL_VERSION } from '../swarm/messages/messages.ts';
import { atTestEnd } from './product.ts';
import { Besieged, DeafDonor, strangersAddress } from './strangers.ts';

const options = { timeout: 180_000 };
const HELLO = { type: 'hello', protocol: PROTOCOL_VERSION, adapter: SCRIPTED_ADAPTER } as const;
const DEAF = 250;
const GROWTH_BYTES = 200e6;

test('[SV3] 250 sockets that do not read fill no memory', options, async () => {
  const besieged = await Besieged.training({ honest: 2 });
  const before = await besieged.metric('shoal_resident_memory_bytes');
  const crowd = arrayOf(DEAF, (number) => {
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
