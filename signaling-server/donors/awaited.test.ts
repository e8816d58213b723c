/** Donors whom a server that is back waits for, in a crowd that comes before them. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { PROTOCOL_VERSION } from '../../swarm/messages/messages.ts';
import { Spoken } from '../../swarm/messages/spoken.ts';
import { SCRIPTED_ADAPTER, SCRIPTED_PROFILE, ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';
import type { DonorLink } from './donorSocket.ts';
import type { Reception } from './reception.ts';

const PROXIED = { access: { trustProxy: ['127.0.0.1', '::1'] } };
const CROWD = 400;

let servers: TinyServers;
beforeEach(() => {
  servers = new TinyServers({ steps: 1_000 }, false);
});
afterEach(() => servers.close());

/** Of an address of its own: how many of them were let in by their hello. */
function strangersCome(
  reception: Reception,
  {
    measure,
    count = CROWD,
    gateway = '',
  }: { readonly measure: boolean; readonly count?: number; readonly gateway?: string },
): number {
  const hello = { type: 'hello', protocol: PROTOCOL_VERSION, adapter: SCRIPTED_ADAPTER } as const;
  return Array.from({ length: count }, (_, number) => {
    const link: DonorLink = {
      ...{ address: `10.0.${number >> 8}.${number & 255}`, isHere: false, roundTripMs: null },
      beside: { gateway, socket: number, tellWays: () => {}, tellSenders: () => {}, hear: () => {} },
      ...{ spoken: new Spoken<Buffer>(), goOnFrom: () => {}, supersede: () => {}, close: () => {} },
      ...{ send: () => {}, sendNewest: () => {}, sendBytes: () => {}, refuse: () => reception.ended(link) },
    };
    if (reception.arrived(link) !== null) return false;
    const answer = reception.admit(hello, link);
    if (answer === 'serverFull') reception.ended(link);
    else if (measure) reception.onMessage(answer as never, { type: 'measured', profile: SCRIPTED_PROFILE });
    return answer !== 'serverFull';
  }).filter((isIn) => isIn).length;
}

test('of one process of a site a thousand donors are let in, of all together as many as its leader bears', async () => {
  const server = await servers.serve({ maxDonors: 1_030, expectedDonors: 2_000 });
  const come = (gateway: string): number =>
    strangersCome(server.run.reception, { measure: true, count: 1_010, gateway });
  expect([come('one'), come('other')]).toEqual([1_000, 30]);
});

for (const { measure, of } of [
  { measure: false, of: 'who take all places of those that are not admitted yet' },
  { measure: true, of: 'as many as a server takes' },
])
  test(`donors whose state is waited for are let in past a crowd of strangers, ${of}`, async () => {
    const before = await servers.serve(PROXIED);
    const addresses = ['192.0.2.1', '192.0.2.2'];
    const donors = await Promise.all(addresses.map((address) => ScriptedDonor.joined(before.url, { address })));
    await before.run.until(({ committedSteps }) => committedSteps > 3);
    await before.close();
    await Promise.all(donors.map(({ closed }) => closed));
    const after = await servers.serve({ ...PROXIED, maxDonors: 100 });
    const { committedSteps } = after.run;
    expect(strangersCome(after.run.reception, { measure })).toBe(measure ? 100 : 256);
    const back = await Promise.all(donors.map((donor) => donor.comeBack(after.url)));
    await after.run.until((run) => run.committedSteps > committedSteps);
    expect(after.run.snapshot().generation).toBe(0);
    for (const donor of back) donor.vanish();
  });
