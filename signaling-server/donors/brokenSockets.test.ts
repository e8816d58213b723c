/** A donor's connection breaks while the server lives: it takes its place again on another one, and nobody else hears of it. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { PeerMessage } from '../../swarm/messages/messages.ts';
import { rollBacksSince } from '../store/rollBacks.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';

const STEPS = 8;
const STOPS_AT = 3;

let servers: TinyServers;
let url: string;
beforeEach(async () => {
  servers = new TinyServers({ steps: STEPS });
  ({ url } = await servers.serve({ expectedDonors: 2, access: { trustProxy: ['127.0.0.1', '::1'] } }));
});
afterEach(() => servers.close());

/** Says all but the report of one step. */
const stops = (message: PeerMessage): PeerMessage | null =>
  message.type === 'report' && message.step === STOPS_AT ? null : message;
/** What it says again was heard before, or never asked for. */
const onlyFrom =
  (step: number) =>
  (message: PeerMessage): PeerMessage | null =>
    message.type === 'ready' || (message.type === 'report' && message.step < step) ? null : message;

/** Two donors at work; the second one's report of step 3 is lost. */
async function atWork(addresses = ['192.0.2.1', '192.0.2.2']) {
  const [address = '', another = ''] = addresses;
  const other = await ScriptedDonor.joined(url, { address });
  const donor = await ScriptedDonor.joined(url, { address: another, lie: stops });
  await donor.hears('start', ({ step }) => step === STOPS_AT);
  const { peer, resumeKey: key } = donor.welcome;
  return { other, donor, again: { resume: { peer, key }, address: another, lie: onlyFrom(STOPS_AT) } };
}

/** Epochs that a donor was told of. */
const epochsOf = ({ received }: ScriptedDonor) =>
  received.flatMap((message) => (message.type === 'prepare' ? message.epoch : []));

async function expectWhole(other: ScriptedDonor) {
  await other.hears('standby', ({ state }) => state === 'finished');
  expect(epochsOf(other)).toEqual([1]);
  expect(other.heardCount('abandon')).toBe(0);
  const { store } = await servers.data();
  expect(rollBacksSince(store, 'tiny', 0)).toEqual([]);
  expect(store.steps('tiny').map(({ step }) => step)).toEqual(Array.from({ length: STEPS }, (_, step) => step));
}

describe('[RE80] a broken connection', () => {
  it('costs nothing where the same donor is back: it hears what it had not, and is asked for what was lost', async () => {
    const { other, donor, again } = await atWork();
    donor.vanish();
    const back = await ScriptedDonor.joined(url, again);
    const { peer, token } = donor.welcome;
    // `measured`, `ready`, and the reports of three steps.
    expect(back.welcome).toMatchObject({ peer, token, heard: 2 + STOPS_AT });
    const words = ({ received }: ScriptedDonor) =>
      received.filter(({ type }) => type !== 'welcome' && type !== 'snapshot');
    await back.hears('start', ({ step }) => step === STOPS_AT);
    expect(words(back).slice(0, words(donor).length)).toEqual(words(donor));
    await expectWhole(other);
  });

  it('says again only what was not heard', async () => {
    const { donor, again } = await atWork();
    const heard = donor.received.filter(({ type }) => type !== 'welcome' && type !== 'snapshot').length;
    donor.vanish();
    const back = await ScriptedDonor.joined(url, { ...again, resume: { ...again.resume, heard: heard - 1 } });
    await back.settled();
    const words = back.received.filter(({ type }) => type !== 'welcome' && type !== 'snapshot');
    expect(words).toEqual([expect.objectContaining({ type: 'start', step: STOPS_AT })]);
  });

  it('need not be known to the server: the newer one counts, and nothing that comes on the old one', async () => {
    const { other, donor, again } = await atWork();
    const back = await ScriptedDonor.joined(url, again);
    expect(back.welcome.peer).toBe(donor.welcome.peer);
    await donor.closed;
    await expectWhole(other);
  });

  it('costs nothing where it is that of who computes alone, with the only state', async () => {
    ({ url } = await servers.serve({ expectedDonors: 1, access: { trustProxy: ['127.0.0.1', '::1'] } }));
    const donor = await ScriptedDonor.joined(url, { address: '192.0.2.1', lie: stops });
    await donor.hears('start', ({ step }) => step === STOPS_AT);
    const { peer, resumeKey: key } = donor.welcome;
    donor.vanish();
    const again = { resume: { peer, key }, address: '192.0.2.1', lie: onlyFrom(STOPS_AT) };
    const back = await ScriptedDonor.joined(url, again);
    expect(back.welcome.peer).toBe(peer);
    await back.hears('standby', ({ state }) => state === 'finished');
    const { store } = await servers.data();
    expect(rollBacksSince(store, 'tiny', 0)).toEqual([]);
  });

  it('is a loss where nobody comes in time', async () => {
    const { other, donor } = await atWork();
    donor.vanish();
    expect(await other.hears('prepare', ({ epoch }) => epoch > 1)).toMatchObject({
      plan: { stages: [expect.anything()] },
    });
  });

  it('is one at once where it said goodbye', async () => {
    const { other, donor, again } = await atWork();
    donor.leave();
    await other.hears('prepare', ({ epoch }) => epoch > 1);
    expect((await ScriptedDonor.joined(url, again)).welcome.peer).not.toBe(donor.welcome.peer);
  });
});

describe('[RE81] another one is a new donor', () => {
  it.each([
    ['key', { key: 'x' }, '192.0.2.2'],
    ['number of words', { heard: 1_000 }, '192.0.2.2'],
    ['network', {}, '198.51.100.1'],
  ])('that has another %s', async (_what, said, address) => {
    const { donor, again } = await atWork();
    donor.vanish();
    const { welcome } = await ScriptedDonor.joined(url, { resume: { ...again.resume, ...said }, address });
    expect(welcome).toMatchObject({ heard: null });
    expect(welcome.peer).not.toBe(donor.welcome.peer);
  });

  it('or whose connection breaks all the time: at the fourth time at once it is a loss like any other', async () => {
    const { other, donor, again } = await atWork();
    const peers = [];
    for (let time = 0; time < 4; time++) {
      const back = await ScriptedDonor.joined(url, {
        ...again,
        lie: (message) => (message.type === 'hello' ? message : null),
      });
      peers.push(back.welcome.peer === donor.welcome.peer);
      back.vanish();
      await back.closed;
    }
    expect(peers).toEqual([true, true, true, false]);
    await other.hears('prepare', ({ epoch }) => epoch > 1);
  });
});
