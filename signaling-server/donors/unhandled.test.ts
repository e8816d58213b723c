/** What throws where nothing should: it costs the donor whose word it was its connection, and nobody else anything. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Server } from '../server.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';

let servers: TinyServers;
beforeEach(() => {
  servers = new TinyServers({ steps: 1_000_000, checkpointEverySteps: 5 });
});
afterEach(async () => {
  vi.restoreAllMocks();
  await servers.close();
});

/** The next event of this type is one that nobody was prepared for. */
const strange = vi.hoisted(() => ({ type: '' }));
vi.mock(import('../../swarm/decisions/decide.ts'), async (original) => {
  const decisions = await original();
  const decide: typeof decisions.decide = (state, event, now) => {
    if (event.type === strange.type) {
      strange.type = '';
      boom();
    }
    return decisions.decide(state, event, now);
  };
  return { ...decisions, decide };
});

const boom = (): never => {
  throw new Error('boom');
};

async function stepsOn(server: Server): Promise<void> {
  const { committedSteps } = server.run;
  await server.run.until((run) => run.committedSteps >= committedSteps + 5);
}

const metric = async (server: Server, name: string): Promise<string | undefined> =>
  (await (await fetch(`${server.url}/metrics`)).text()).split('\n').find((line) => line.startsWith(name));

test('[SV10] over a message: its donor is refused, counted and told of in the log', async () => {
  const said: string[] = [];
  const server = await servers.serve({ log: (level, text) => level === 'warn' && said.push(text) });
  const honest = await ScriptedDonor.joined(server.url);
  await honest.hears('committed');
  const follow = server.run.history.event.bind(server.run.history);
  vi.spyOn(server.run.history, 'event').mockImplementation((event) => {
    if (event.type === 'said' && event.message.type === 'fault' && event.message.detail === 'strange') boom();
    follow(event);
  });
  const stranger = await ScriptedDonor.joined(server.url);
  stranger.say({ type: 'fault', epoch: 0, reason: 'internal', detail: 'strange' });
  expect((await stranger.hears('refused')).reason).toBe('unhandled');
  await stranger.closed;
  await stepsOn(server);
  expect(honest.received.filter(({ type }) => type === 'refused')).toEqual([]);
  expect(await metric(server, 'shoal_failures_total')).toBe('shoal_failures_total 1');
  expect(await metric(server, 'shoal_refused_total{reason="unhandled"}')).toMatch(/ 1$/);
  expect(said.join()).toContain('boom');
});

test('[SV10] inside a decision: the event never happened, nothing is rolled back, and its donor is refused', async () => {
  const server = await servers.serve();
  strange.type = 'donorJoined';
  const stranger = await ScriptedDonor.joined(server.url);
  expect((await stranger.hears('refused')).reason).toBe('unhandled');
  await stranger.closed;
  await ScriptedDonor.joined(server.url);
  await stepsOn(server);
  expect(await metric(server, 'shoal_failures_total')).toBe('shoal_failures_total 1');
  const { donors, generation } = server.run.snapshot();
  expect({ donors: donors.length, generation }).toEqual({ donors: 1, generation: 0 });
});

test('[SV15] while effects are performed: the run begins again from its store with those who are left', async () => {
  const server = await servers.serve();
  const { store } = await servers.data();
  const donors = [await ScriptedDonor.joined(server.url), await ScriptedDonor.joined(server.url)];
  await Promise.all(donors.map((donor) => donor.hears('committed', ({ step }) => step >= 7)));
  const failing = vi.spyOn(store, 'commitStep').mockImplementationOnce(boom);
  await server.run.until(() => failing.mock.calls.length > 1);
  const refused = donors.filter(({ received }) => received.some(({ type }) => type === 'refused'));
  expect(refused).toHaveLength(1);
  await stepsOn(server);
  expect(server.run.snapshot().donors).toHaveLength(1);
  // As after a killed server: back to the newest checkpoint, then each step once, without a gap.
  expect(server.run.snapshot().generation).toBeLessThanOrEqual(1);
  const steps = store.steps('tiny', 0).map(({ step }) => step);
  expect(steps).toEqual(steps.map((_, at) => at));
});

test('[SV10] a store that takes nothing any more ends no process: donors are let go, and when it is well again the run goes on', async () => {
  const server = await servers.serve();
  const { store } = await servers.data();
  const first = await ScriptedDonor.joined(server.url);
  await first.hears('committed');
  const failing = ['commitStep', 'saveEpoch', 'rollBack', 'addEvent', 'unlinkPeer'] as const;
  for (const name of failing) vi.spyOn(store, name).mockImplementation(boom);
  await first.closed;
  const second = new ScriptedDonor(server.url);
  await second.closed;
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
  vi.restoreAllMocks();
  await ScriptedDonor.joined(server.url);
  await stepsOn(server);
});
