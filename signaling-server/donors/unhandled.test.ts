/** What throws where nothing should: it costs the donor whose word it was its connection, and nobody else anything. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import * as decisions from '../../swarm/decisions/decide.ts';
import type { RunObserver } from '../run/runObserver.ts';
import type { Server } from '../server.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers, tinyRunFile } from '../testing/tinyServers.ts';

let servers: TinyServers;
beforeEach(() => {
  servers = new TinyServers({ steps: 1_000_000, checkpointEverySteps: 5 });
});
afterEach(async () => {
  vi.restoreAllMocks();
  await servers.close();
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

test('over a message: its donor is refused, counted and told of in the log', async () => {
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

test('inside a decision: the event never happened, nothing is rolled back, and its donor is refused', async () => {
  const server = await servers.serve();
  const { decide } = decisions;
  const strange = vi.spyOn(decisions, 'decide').mockImplementation((state, event, now) => {
    if (event.type !== 'donorJoined') return decide(state, event, now);
    strange.mockRestore();
    return boom();
  });
  const stranger = await ScriptedDonor.joined(server.url);
  expect((await stranger.hears('refused')).reason).toBe('unhandled');
  await stranger.closed;
  await ScriptedDonor.joined(server.url);
  await stepsOn(server);
  expect(await metric(server, 'shoal_failures_total')).toBe('shoal_failures_total 1');
  const { donors, generation } = server.run.snapshot();
  expect({ donors: donors.length, generation }).toEqual({ donors: 1, generation: 0 });
});

/** Throws at the next effect of this type: before it is in the store, or after. */
function failNext(server: Server, type: string, place: 'before' | 'after'): void {
  const observer: RunObserver = place === 'before' ? server.run.history : server.run.moved;
  const perform = observer.effect?.bind(observer);
  const failing = vi.spyOn(observer as Required<RunObserver>, 'effect').mockImplementation((effect) => {
    if (effect.type !== type) return perform?.(effect);
    failing.mockRestore();
    return boom();
  });
}

const EFFECTS = ['storeCommit', 'storeEpoch', 'storeCheckpoint', 'storeEvaluation', 'send'] as const;
const PLACES = ['before', 'after'] as const;
test.each(EFFECTS.flatMap((type) => PLACES.map((place) => [type, place] as const)))(
  'while a %s is performed, %s it is stored: the run begins again from its store, its donors come back, and no step is given up',
  async (type, place) => {
    servers.writeRun(tinyRunFile({ steps: 1_000_000, checkpointEverySteps: 20, evaluationEverySteps: 7 }));
    const server = await servers.serve();
    const { store } = await servers.data();
    const donors = [await ScriptedDonor.joined(server.url), await ScriptedDonor.joined(server.url)];
    await server.run.until((run) => run.committedSteps > 22);
    failNext(server, type, place);
    if (type === 'storeEpoch') donors.push(await ScriptedDonor.joined(server.url));
    await Promise.all(donors.map(({ closed }) => closed));
    const names = donors.slice(0, 2).map(({ welcome }) => welcome.peer);
    const back = await Promise.all(donors.map((donor) => donor.comeBack()));
    await stepsOn(server);
    expect(server.run.snapshot().generation).toBe(0);
    expect(store.steps('tiny', 0).map(({ step }) => step)).toEqual([...Array(server.run.committedSteps).keys()]);
    expect(back.slice(0, 2).map(({ welcome }) => welcome.peer)).toEqual(names);
    expect(back.flatMap(({ received }) => received.filter((message) => message.type === 'refused'))).toEqual([]);
  },
);

test('where effects throw again before a step is committed it ends: a donor is let go, and the others go on from the checkpoint', async () => {
  const server = await servers.serve();
  const { store } = await servers.data();
  const donors = [await ScriptedDonor.joined(server.url), await ScriptedDonor.joined(server.url)];
  await Promise.all(donors.map((donor) => donor.hears('committed', ({ step }) => step >= 7)));
  const failing = vi.spyOn(store, 'commitStep').mockImplementationOnce(boom).mockImplementationOnce(boom);
  await Promise.all(donors.map(({ closed }) => closed));
  const back = await Promise.all(donors.map((donor) => donor.comeBack()));
  await server.run.until(() => failing.mock.calls.length > 2);
  expect(back.filter(({ received }) => received.some(({ type }) => type === 'refused'))).toHaveLength(1);
  await stepsOn(server);
  expect(server.run.snapshot().generation).toBeLessThanOrEqual(1);
  const steps = store.steps('tiny', 0).map(({ step }) => step);
  expect(steps).toEqual(steps.map((_, at) => at));
});

test('a store that takes nothing any more ends no process: donors are let go, and when it is well again the run goes on', async () => {
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
