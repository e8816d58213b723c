import { afterEach, beforeEach, expect, it } from 'vitest';
import type { PeerId } from '../../swarm/base.ts';
import type { PeerMessage } from '../../swarm/messages/messages.ts';
import { rollBacksSince } from '../store/rollBacks.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';

const STEPS = 8;

let servers: TinyServers;
beforeEach(() => {
  servers = new TinyServers({ steps: STEPS });
});
afterEach(() => servers.close());

/** A server whose two donors stop in the middle of step 3, and what they were; it is closed at once. */
async function endedAtStepThree(): Promise<{ readonly peer: PeerId; readonly key: string; readonly epoch: number }[]> {
  const server = await servers.serve({ expectedDonors: 2 });
  const lie = (message: PeerMessage) => (message.type === 'report' && message.step === 3 ? null : message);
  const donors = [await ScriptedDonor.joined(server.url, { lie }), await ScriptedDonor.joined(server.url, { lie })];
  const parts = [];
  for (const donor of donors) {
    const { epoch } = await donor.hears('start', ({ step }) => step === 3);
    parts.push({ peer: donor.welcome.peer, key: donor.welcome.resumeKey, epoch });
  }
  await server.close();
  return parts;
}

it('[RE38] a tab proves by its key which peer it was, also to a later server, and the run goes on', async () => {
  const parts = await endedAtStepThree();
  const later = await servers.serve({ expectedDonors: 2 });
  const donors: ScriptedDonor[] = [];
  for (const { epoch, ...resume } of parts) {
    const donor = await ScriptedDonor.joined(later.url, { resume });
    donors.push(donor);
    expect(donor.welcome).toMatchObject({ peer: resume.peer, resumeKey: resume.key, generation: 0, committedSteps: 3 });
    expect(donor.welcome.lastCommit).toMatchObject({ epoch, step: 2, clipScale: expect.any(Number) });
    donor.say({ type: 'resumed', generation: 0, role: { epoch, step: 3 }, handedOver: null });
  }
  const prepare = await donors[0]?.hears('prepare');
  expect(prepare).toMatchObject({ step: 3, source: { from: 'kept' } });
  await donors[1]?.hears('standby', ({ state }) => state === 'finished');
  const { store } = await servers.data();
  expect(rollBacksSince(store, 'tiny', 0)).toEqual([]);
  expect(store.steps('tiny').map(({ step }) => step)).toEqual(Array.from({ length: STEPS }, (_, step) => step));
});

it('[RE38] with a key that is not its own, or of another peer, one is new; with its own the newest one is that peer', async () => {
  const [first, second] = await endedAtStepThree();
  if (!first || !second) throw new Error('there were two');
  const later = await servers.serve({ expectedDonors: 2 });
  const peerOf = async (resume: { peer: PeerId; key: string }): Promise<PeerId> =>
    (await ScriptedDonor.joined(later.url, { resume })).welcome.peer;
  for (const key of ['', 'x', second.key]) expect(await peerOf({ peer: first.peer, key })).not.toBe(first.peer);
  expect(await peerOf(first)).toBe(first.peer);
  expect(await peerOf(first)).toBe(first.peer);
});
