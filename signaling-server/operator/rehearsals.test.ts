/** What the dashboard rehearses: to whom, how much at once, and what is shown of it. Times by hand. */
import { expect, test } from 'vitest';
import { Rehearsal, type RehearsedDonor } from '../faults/rehearsal.ts';
import type { ActiveRun } from '../run/run.ts';
import { errorOf, OperatedServer } from '../testing/operatedServer.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { NO_OWN_DONORS, Rehearsals } from './rehearsals.ts';

/** Donors a and b are the command's own, c is a stranger; every fault takes effect when the test says so. */
function watch() {
  const done: string[] = [];
  let effect: (took: boolean) => void = () => {};
  const begin = (what: string): Promise<boolean> => {
    done.push(what);
    return new Promise((resolve) => {
      effect = resolve;
    });
  };
  const donor = (name: string): RehearsedDonor => ({
    peers: new Set([`${name} before`, name]),
    kill: () => begin(`kill ${name}`),
    loseGpu: () => begin(`gpu ${name}`),
    mute: () => begin(`mute ${name}`),
    leave: () => begin(`leave ${name}`),
    freeze: (seconds) => begin(`freeze ${name} ${seconds}`),
    cut: (seconds) => begin(`cut ${name} ${seconds}`),
    slow: (times) => begin(`slow ${name} ${times}`),
    tamper: (kind, step) => begin(`${kind} ${name} from ${step}`),
  });
  const run = {
    phase: 'training' as ActiveRun['phase'],
    committedSteps: 7,
    peers: ['a', 'b', 'c'],
    epoch: 1,
    movedBytes: 0,
    tellWatchers: () => {},
    donors: () => run.peers.map((peer) => ({ peer })),
  };
  let nowMs = 1_000;
  const rehearsal = new Rehearsal([donor('a'), donor('b')], { nowMs: () => nowMs });
  const rehearsals = new Rehearsals(run);
  const see = (atMs: number, committedSteps: number, change: Partial<typeof run> = {}): void => {
    nowMs = atMs;
    Object.assign(run, { committedSteps }, change);
    rehearsal.see({
      snapshot: { epoch: run.epoch, committedSteps, donors: run.donors() },
      ...{ epochReason: 'b is gone', movedBytes: run.movedBytes },
    });
  };
  rehearsals.attach(rehearsal);
  see(1_000, 7);
  const takesEffect = async (took = true): Promise<void> => {
    effect(took);
    await new Promise((resolve) => setImmediate(resolve));
  };
  const states = () => rehearsals.shown().rows.map(({ state }) => state);
  return { run, rehearsals, done, see, takesEffect, states };
}

const BUSY = { ok: false, reason: 'Another fault is under way: one at a time.' };

test('a fault is done to a donor of the command’s own, and its row has what it cost', async () => {
  const { rehearsals, done, see, takesEffect, states } = watch();
  expect(rehearsals.shown()).toEqual({ donors: ['a', 'b'], rows: [] });
  expect(rehearsals.begin({ kind: 'kill', peer: 'b' })).toMatchObject({ ok: true });
  expect([done, states()]).toEqual([['kill b'], ['begins']]);
  await takesEffect();
  see(1_300, 7, { peers: ['a', 'c'] });
  see(2_000, 7, { epoch: 2, movedBytes: 500 });
  expect(states()).toEqual(['fired']);
  expect(rehearsals.begin({ kind: 'kill', peer: 'a' })).toEqual(BUSY);
  see(2_600, 8);
  const cost = { detectedSeconds: 0.3, resumedSeconds: 1.6, stepsGivenUp: 0, bytesMoved: 500 };
  const row = { id: 0, wish: { kind: 'kill', peer: 'b' }, state: 'over', entry: 'kill:1@7', step: 7, ...cost };
  expect(rehearsals.shown()).toEqual({ donors: ['a'], rows: [row] });
  // What happens later is not its doing.
  see(9_000, 3, { epoch: 3, movedBytes: 900 });
  expect(rehearsals.shown().rows).toEqual([row]);
  expect(rehearsals.costs()).toEqual([{ entry: 'kill:1@7', ...cost }]);
});

test('a stranger’s donor, one that is gone and a run that does no step are refused in a sentence', () => {
  const { run, rehearsals, done } = watch();
  const sentence = 'Only donors that this server opened itself can be made to fail on purpose.';
  expect(rehearsals.begin({ kind: 'kill', peer: 'c' })).toEqual({ ok: false, reason: sentence });
  expect(rehearsals.begin({ kind: 'kill', peer: 'b before' })).toEqual({ ok: false, reason: sentence });
  run.phase = 'paused';
  expect(rehearsals.begin({ kind: 'kill', peer: 'b' })).toMatchObject({ ok: false, reason: /does no step now/ });
  run.peers = ['c'];
  expect(rehearsals.begin({ kind: 'kill', peer: 'b' })).toEqual({ ok: false, reason: NO_OWN_DONORS });
  expect([done, rehearsals.shown()]).toEqual([[], { donors: [], rows: [] }]);
});

test.each<ActiveRun['phase']>(['planning', 'preparing', 'holding', 'returning'])(
  'a fault may come while the run is %s as well',
  (phase) => {
    const { run, rehearsals, done } = watch();
    run.phase = phase;
    expect(rehearsals.begin({ kind: 'kill', peer: 'b' })).toMatchObject({ ok: true });
    expect([done, rehearsals.shown().rows[0]]).toMatchObject([['kill b'], { entry: 'kill:1@7' }]);
  },
);

test('what passes by itself is over after its time, also where nobody noticed', async () => {
  const { rehearsals, done, see, takesEffect, states } = watch();
  rehearsals.begin({ kind: 'freeze', peer: 'b', seconds: 3 });
  await takesEffect();
  see(2_000, 8);
  see(8_999, 9);
  expect([done, states()]).toEqual([['freeze b 3'], ['fired']]);
  see(9_000, 9); // 3 s of standing still, 5 s in which what it broke would show
  expect(states()).toEqual(['over']);
  expect(rehearsals.shown().rows[0]).toMatchObject({
    ...{ entry: 'freeze:1@7+3s', detectedSeconds: null, resumedSeconds: 1 },
  });
});

test('what could not be done, or never showed, is not waited for', async () => {
  const { rehearsals, see, takesEffect, states } = watch();
  rehearsals.begin({ kind: 'slow', peer: 'a', factor: 4 });
  await takesEffect(false);
  expect(states()).toEqual(['failed']);
  rehearsals.begin({ kind: 'nan', peer: 'a' });
  see(60_999, 8);
  expect(rehearsals.begin({ kind: 'kill', peer: 'a' })).toEqual(BUSY);
  see(61_000, 8);
  expect([states(), rehearsals.costs()]).toEqual([['failed', 'failed'], []]);
  rehearsals.begin({ kind: 'slow', peer: 'a', factor: 4 });
  await takesEffect();
  see(62_000, 9);
  see(80_999, 70);
  expect(states().at(-1)).toBe('fired');
  see(81_000, 70);
  expect(states().at(-1)).toBe('over');
  expect(rehearsals.costs()).toMatchObject([{ entry: 'slow:0@8*4', resumedSeconds: 1 }]);
});

test('the call refuses more than its bounds and strangers, says how to get donors, and stands in the audit', async () => {
  const operated = new OperatedServer();
  try {
    const { url, run, rehearsals } = await operated.serve(null);
    const { post } = await operated.logIn();
    const donor = await ScriptedDonor.joined(url);
    await run.until((now) => now.donors().length === 1);
    const { peer } = donor.welcome;
    const ask = (body: object): Promise<Response> => post('/api/operator/rehearse', body);
    for (const body of [
      { kind: 'freeze', peer, seconds: 61 },
      { kind: 'freeze', peer, seconds: 0.5 },
      { kind: 'cut', peer },
      { kind: 'slow', peer, factor: 11 },
      { kind: 'server-kill', peer },
      { kind: 'kill' },
    ])
      expect((await ask(body)).status, JSON.stringify(body)).toBe(400);
    const none = await ask({ kind: 'kill', peer });
    expect(await errorOf(none)).toEqual([409, NO_OWN_DONORS]);
    rehearsals.attach(new Rehearsal([]));
    expect((await ask({ kind: 'freeze', peer, seconds: 2 })).status).toBe(409);
    const { events, rehearsals: shown } = await operated.shown();
    expect(shown).toEqual({ donors: [], rows: [] });
    expect(events.at(-1)).toMatchObject({
      what: `wanted to rehearse a fault on ${peer}: freeze it for 2 s: refused, ${NO_OWN_DONORS}`,
    });
  } finally {
    await operated.close();
  }
});
