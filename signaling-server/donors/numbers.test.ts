/** Numbers that no honest page sends, in place of each number of each message, from a stranger and from a member of the plan. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { PeerMessage } from '../../swarm/messages/messages.ts';
import { PEER_EXAMPLES } from '../../swarm/testing/messageExamples.ts';
import type { Server } from '../server.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';

/** As JSON has them; it has no NaN. */
const STRANGE = ['0.5', '-1', '1e300', '1e999', '9007199254740992', '4294967296', 'null', '"1"', '[]'];

let servers: TinyServers;
let server: Server;
beforeEach(async () => {
  servers = new TinyServers({ steps: 1_000_000 });
  server = await servers.serve();
});
afterEach(() => servers.close());

/** The message with each of its numbers in turn replaced by each of these texts. */
function bent(message: PeerMessage): string[] {
  const text = JSON.stringify(message);
  return [...text.matchAll(/(?<=[:[,])-?\d[\d.e+]*/g)].flatMap(({ index, 0: number }) =>
    STRANGE.map((value) => text.slice(0, index) + value + text.slice(index + number.length)),
  );
}

async function commitsGoOn(honest: ScriptedDonor): Promise<void> {
  const { committedSteps } = server.run;
  await server.run.until((run) => run.committedSteps >= committedSteps + 5);
  expect(honest.received.filter(({ type }) => type === 'refused')).toEqual([]);
}

test('[WP3] every number of every message replaced: the server lives, and an honest donor steps on', async () => {
  const honest = await ScriptedDonor.joined(server.url);
  const says = async ({ type }: PeerMessage, text: string): Promise<void> => {
    const stranger = new ScriptedDonor(server.url, { greets: type !== 'hello' });
    stranger.obedient = false;
    await (type === 'hello' ? stranger.opened : stranger.hears('welcome'));
    stranger.sayRaw(text);
    stranger.leave();
    await stranger.closed;
  };
  for (const example of PEER_EXAMPLES) await Promise.all(bent(example).map((text) => says(example, text)));
  await commitsGoOn(honest);
});

// A run each: those who come for a moment one after the other would have to wait.
test.each(['0.5', '-1', '1e300', '1e999', '8796093022209', 'null', '"1"'])(
  '[WP3] a member of the plan whose report has %s is refused as malformed, and the step is done without it',
  async (value) => {
    const honest = await ScriptedDonor.joined(server.url);
    const example = PEER_EXAMPLES.find(({ type }) => type === 'report');
    if (example?.type !== 'report') throw new Error('there is an example');
    const member = new ScriptedDonor(server.url);
    member.obedient = false;
    const { number } = await member.hears('warm');
    member.say({ type: 'warmed', number });
    const { epoch } = await member.hears('prepare');
    member.say({ type: 'ready', epoch, memoryBytes: 1 });
    const { step } = await member.hears('start');
    const report = JSON.stringify({ ...example, epoch, step, bytesDirect: 77 });
    member.sayRaw(report.replace('"bytesDirect":77', `"bytesDirect":${value}`));
    expect((await member.hears('refused')).reason).toBe('malformed');
    await commitsGoOn(honest);
  },
);

test('[WP3] a profile that has one size of micro-batch twice says no time of a layer: it is refused', async () => {
  const honest = await ScriptedDonor.joined(server.url);
  const example = PEER_EXAMPLES.find(({ type }) => type === 'measured');
  if (example?.type !== 'measured') throw new Error('there is an example');
  const layer = { samples: 1, forwardSeconds: 0.001, backwardSeconds: 0.002 };
  const stranger = new ScriptedDonor(server.url);
  stranger.obedient = false;
  await stranger.hears('welcome');
  stranger.sayRaw(JSON.stringify({ ...example, profile: { ...example.profile, layers: [layer, layer] } }));
  expect((await stranger.hears('refused')).reason).toBe('malformed');
  await commitsGoOn(honest);
});
