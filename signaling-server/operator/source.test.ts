/** What the dashboard is told, through a real server with donors that answer by a script. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { stepTimelineSchema } from '../../swarm/messages/watch.ts';
import { parameters } from '../../swarm/model/model.ts';
import { OperatedServer, OPERATED_STEPS as STEPS } from '../testing/operatedServer.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';

import { eventOf, LINKS_INTERVAL_MS, operatorSource } from './source.ts';

let operated: OperatedServer;
beforeEach(() => {
  operated = new OperatedServer();
});
afterEach(() => operated.close());

describe('the dashboard', () => {
  it('has every join, plan, checkpoint, departure and operator’s word in order, with their steps', async () => {
    const server = await operated.serve(2, { replicas: 0 });
    const { post } = await operated.logIn();
    const first = new ScriptedDonor(server.url);
    const second = new ScriptedDonor(server.url);
    await second.hears('committed', ({ step }) => step === 20);
    second.vanish();
    await first.hears('standby', ({ state }) => state === 'finished');
    await post('/api/operator/command', { command: 'stop' });
    const { events, snapshot } = await operated.shown();
    expect(snapshot.run).toBe('tiny');
    const kinds = events.map(({ kind }) => kind);
    expect(kinds.slice(0, 5)).toEqual(['operator', 'joined', 'joined', 'plan', 'checkpoint']);
    expect(kinds.slice(-2)).toEqual(['finished', 'operator']);
    for (const kind of ['gone', 'rollBack', 'checkpoint'] as const) expect(kinds).toContain(kind);
    expect(events).toContainEqual(expect.objectContaining({ kind: 'gone', peer: second.welcome.peer }));
    expect(events.find(({ kind }) => kind === 'plan')).toMatchObject({
      ...{ epoch: 1, donors: 2, stages: 2, microBatches: 4, reason: 'enough donors are here' },
    });
    const session = expect.stringMatching(/^[0-9a-f]{6}$/);
    expect(events.at(-1)).toMatchObject({ step: STEPS, what: 'stopped the run', session });
    expect(events.map(({ id }) => id)).toEqual(events.map(({ id }) => id).toSorted((a, b) => a - b));
  });

  it('is told the ways between donors when there are others, and else every two seconds', async () => {
    const { url, run } = await operated.serve(2);
    const [a, b] = [new ScriptedDonor(url), new ScriptedDonor(url)];
    await a.hears('standby', ({ state }) => state === 'finished');
    let now = 0;
    const source = operatorSource(run, operated.data.store, operated.server.rehearsals, () => now);
    const told = (): number | undefined => source().snapshot.links?.length;
    expect([told(), told()]).toEqual([0, undefined]);
    const way = { route: 'direct', roundTripMs: 1, bytesPerSecond: 1 } as const;
    run.network.reported(a.welcome.peer, [{ ...way, peer: b.welcome.peer }]);
    expect([told(), told()]).toEqual([1, undefined]);
    now = LINKS_INTERVAL_MS;
    expect([told(), told()]).toEqual([1, undefined]);
  });

  it('is told a step again when what a meeting sent is added to it', async () => {
    const { run } = await operated.serve(1);
    const donor = new ScriptedDonor(operated.server.url);
    await donor.hears('standby', ({ state }) => state === 'finished');
    const { store } = operated.data;
    const source = operatorSource(run, store, operated.server.rehearsals);
    const before = source().recent[STEPS - 3];
    expect(source().recent).toEqual([]);
    store.addMeeting(run.name, STEPS - 2, 500, 7);
    const [again, ...others] = source().recent;
    expect(again).toMatchObject({
      ...{ step: STEPS - 3, bytesDirect: (before?.bytesDirect ?? 0) + 500 },
      bytesRelayed: (before?.bytesRelayed ?? 0) + 7,
    });
    expect(others.map(({ step }) => step)).toEqual([STEPS - 2, STEPS - 1]);
    expect(source().recent).toEqual([]);
  });

  it('has who keeps copies of each stage: here the other donor', async () => {
    const server = await operated.serve(2, { replicas: 1 });
    await operated.logIn();
    const donors = [new ScriptedDonor(server.url), new ScriptedDonor(server.url)];
    await donors[0]?.hears('committed');
    const { plan } = await operated.shown();
    const computes = plan?.stages.map(({ members }) => members.map(({ peer }) => peer));
    expect(plan?.stages.map(({ copies }) => copies)).toEqual(computes?.toReversed());
    expect(new Set(computes?.flat()).size).toBe(2);
  });

  it('has a donor’s faults, once a plan, and what its steps send by kind', async () => {
    const server = await operated.serve(2);
    await operated.logIn();
    const donors = [new ScriptedDonor(server.url), new ScriptedDonor(server.url)];
    const [first] = donors;
    await first?.hears('committed', ({ step }) => step === 2);
    const epoch = 1;
    const about = donors[1]?.welcome.peer;
    for (let time = 0; time < 3; time++)
      first?.say({ type: 'fault', epoch, reason: 'linkLost', about, detail: 'no answer for 15 s' });
    await first?.hears('standby', ({ state }) => state === 'finished');
    const { events, peers, recent, served } = await operated.shown();
    const faults = events.filter(({ kind }) => kind === 'fault');
    expect(faults[0]).toMatchObject({
      ...{ peer: first?.welcome.peer, reason: 'linkLost', about, detail: 'no answer for 15 s' },
    });
    expect(faults.length).toBeLessThan(3);
    expect(peers?.find(({ peer }) => peer === first?.welcome.peer)?.faults).toBe(3);
    // 4 samples of 8 positions, 8 wide, 4 bytes each; the tied table of 256 · 8 goes to its primary and back, and all of
    // the model to the replicas. Of the table's gradient the first stage sends the rows of its 4 · 8 tokens.
    const state = 4 * (256 * 8 + parameters(server.run.model));
    expect(recent[0]?.traffic).toEqual({
      ...{ activation: 4 * 8 * 8 * 4, gradient: 4 * 8 * 8 * 4 },
      ...{ slice: state - 4 * 8 * (256 - 4 * 8), values: state },
    });
    expect(served?.checkpoint).toBeGreaterThan(0);
  });

  it('has the measured spans of a step on one clock, and the share that was idle', async () => {
    const server = await operated.serve(2);
    const { get } = await operated.logIn();
    const donors = [await ScriptedDonor.joined(server.url), await ScriptedDonor.joined(server.url)];
    await donors[0]?.hears('standby', ({ state }) => state === 'finished');
    const { traces, recent, plan, peers } = await operated.shown();
    expect(traces).toEqual([0, STEPS - 1]);
    expect(peers?.map(({ peer, faults, compute }) => [peer, faults, compute])).toEqual(
      donors.map(({ welcome }) => [welcome.peer, 0, 'f32']),
    );
    expect(plan?.stages.map(({ members }) => members[0]?.peer)).toEqual(donors.map(({ welcome }) => welcome.peer));
    const answer = stepTimelineSchema.parse(await (await get('/api/operator/timeline?step=5')).json());
    expect(answer.step).toBe(5);
    // Each of two donors does four forwards and four backwards of one second.
    expect(answer.measured).toHaveLength(16);
    expect(Math.min(...answer.measured.map(([, , start]) => start))).toBe(0);
    expect(recent[5]?.bubble).toBeCloseTo(answer.bubble, 9);
    // The script has both at work all the time.
    expect(answer.bubble).toBeCloseTo(0, 9);
    expect((await get('/api/operator/timeline?step=-1')).status).toBe(400);
  });

  it('tells nothing to who has no session, or one of another server', async () => {
    const server = await operated.serve(1);
    const forged = 'shoal_operator=eyJhbGciOiJub25lIn0.eyJyb2xlIjoib3BlcmF0b3IifQ.';
    for (const path of ['/api/snapshot', '/api/operator/timeline?step=0', '/api/operator/steps?run=tiny'])
      for (const cookie of ['', forged]) {
        const { status } = await fetch(`${server.url}${path}`, { headers: { cookie } });
        expect([path, status]).toEqual([path, 401]);
      }
    const { get } = await operated.logIn();
    expect((await get('/api/operator/steps?run=nobody')).status).toBe(404);
  });

  it('is told no event that it would not understand; what an event quotes is cut', () => {
    const row = { id: 1, atMs: 2, step: 3 };
    expect(eventOf({ ...row, kind: 'planned', detail: '{}' })).toEqual([]);
    expect(eventOf({ ...row, kind: 'gone', detail: '{"peer":"a"}' })).toEqual([]);
    const gone = { kind: 'gone', peer: 'a' } as const;
    const detail = JSON.stringify({ peer: 'a', detail: 'x'.repeat(401) });
    expect(eventOf({ ...row, kind: 'gone', detail })).toEqual([{ ...row, ...gone, detail: 'x'.repeat(400) }]);
  });
});
