import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MESSAGE_BYTES_LIMIT } from '../../swarm/messages/messages.ts';
import { counted } from '../testing/counted.ts';
import { SCRIPTED_ADAPTER, ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';

const STEPS = 6;

let servers: TinyServers;
beforeEach(() => {
  servers = new TinyServers({ steps: STEPS, checkpointEverySteps: 2 });
});
afterEach(() => servers.close());

describe('[WP3] what no page says', () => {
  /** Two donors train to the end while a third one misbehaves; the reason it is refused with. */
  async function refusalOf(misbehave: (donor: ScriptedDonor) => void | Promise<void>, greets = true) {
    const server = await servers.serve({ expectedDonors: 2 });
    const hostile = new ScriptedDonor(server.url, { greets });
    hostile.obedient = false;
    await hostile.opened;
    if (greets) await hostile.hears('welcome');
    await misbehave(hostile);
    const { reason } = await hostile.hears('refused');
    await hostile.closed;
    expect(await counted(server, `shoal_refused_total{reason="${reason}"}`)).toBe(1);
    const others = [await ScriptedDonor.joined(server.url), await ScriptedDonor.joined(server.url)];
    await Promise.all(others.map((donor) => donor.hears('standby', ({ state }) => state === 'finished')));
    expect(server.run.committedSteps).toBe(STEPS);
    return reason;
  }

  it('no JSON', async () => expect(await refusalOf((donor) => donor.sayRaw('{'), false)).toBe('malformed'));
  it('a tensor', async () => expect(await refusalOf((donor) => donor.sayRaw(new Uint8Array(99)))).toBe('malformed'));
  it('an unknown word', async () =>
    expect(await refusalOf((donor) => donor.sayRaw('{"type":"mine"}'))).toBe('malformed'));
  it('[WP2] another version', async () =>
    expect(await refusalOf((donor) => donor.sayRaw('{"type":"hello","protocol":99}'), false)).toBe('wrongProtocol'));
  it('a message that is too long', async () =>
    expect(await refusalOf((donor) => donor.sayRaw(' '.repeat(MESSAGE_BYTES_LIMIT + 1)))).toBe('tooLarge'));
  it('[WP1] something before hello', async () =>
    expect(await refusalOf((donor) => donor.say({ type: 'heartbeat' }), false)).toBe('outOfOrder'));
  it('[WP1] hello twice', async () =>
    expect(await refusalOf((donor) => donor.say({ type: 'hello', protocol: 1, adapter: SCRIPTED_ADAPTER }))).toBe(
      'outOfOrder',
    ));
  it('ready for a plan that never was', async () =>
    expect(await refusalOf((donor) => donor.say({ type: 'ready', epoch: 7, memoryBytes: 0 }))).toBe('outOfOrder'));
  it('an upload that nobody asked for', async () => {
    const shards = [{ block: 'head', range: [0, 16] as const, hash: 'a'.repeat(64) }];
    expect(await refusalOf((donor) => donor.say({ type: 'uploaded', epoch: 9, step: 0, shards }))).toBe('outOfOrder');
  });
  it('more than anyone has to say', async () =>
    expect(
      await refusalOf((donor) => {
        for (let i = 0; i < 1_500; i++) donor.say({ type: 'heartbeat' });
      }),
    ).toBe('tooManyMessages'));

  it('cuts off what is far too long', async () => {
    const server = await servers.serve();
    const donor = await ScriptedDonor.joined(server.url);
    donor.sayRaw(' '.repeat(8 * MESSAGE_BYTES_LIMIT));
    await donor.closed;
    expect(await counted(server, 'shoal_refused_total{reason="tooLarge"}')).toBe(1);
  });
});
