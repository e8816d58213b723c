import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { invariant, peerId } from '../../swarm/base.ts';
import { type DataDirectory, openDataDirectory } from './dataDirectory.ts';
import { contentOfRun, withoutBeside, withRun } from './runContent.ts';
import type { Store } from './store.ts';

const DOCUMENT = JSON.stringify({ data: { shards: [] }, evaluation: null, tokenizer: [] });
const MANIFEST = JSON.stringify({ step: 0, shards: [] });
const [P, Q] = [peerId('p'), peerId('q')];

let folder: string;
const open: DataDirectory[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-runs-'));
});
afterEach(() => {
  for (const data of open.splice(0)) data.close();
  rmSync(folder, { recursive: true, force: true });
});

async function emptyStore(name: string): Promise<Store> {
  const data = await openDataDirectory(join(folder, name), false);
  invariant(data.ok, 'it opens');
  open.push(data.value);
  return data.value.store;
}

const commit = (step: number, loss: number) => ({
  ...{ step, loss, gradientNorm: 1, learningRate: 1e-3, tokens: 32, seconds: 0.5, donors: 1, stages: 1 },
  ...{ microBatches: 1, plan: 1, bytesDirect: 0, bytesRelayed: 0 },
});

/** What is asked of a store about one run. */
const said = (store: Store, run: string) => ({
  row: { ...store.run(run), active: null },
  steps: store.steps(run),
  ledger: store.ledger(run),
  checkpoints: store.checkpoints(run),
  evaluations: [...store.evaluations(run)],
  credit: store.memberCredit(run),
  events: store.history(run, 0, 100).map(({ id: _id, ...event }) => event),
  words: [store.note(run), store.setting(`card ${run}`)],
});

it('a run goes into a store of its own with all that is of it, trains there, and comes back among the others', async () => {
  const site = await emptyStore('site');
  for (const [at, run] of ['a', 'b'].entries()) {
    site.addRun(run, 'hash', DOCUMENT, MANIFEST, at);
    site.saveEpoch(run, 1, 0, '{}', 'a reason');
    for (const step of [0, 1]) site.commitStep(run, commit(step, 5 - step - at / 8), [{ peer: P, tokens: 32 }]);
    site.addEvent(run, 'joined', `{"peer":"${run}"}`, 7, 1);
    site.saveSetting(`note ${run}`, `note of ${run}`);
  }
  site.saveSetting('card b', '{"purpose":"b"}');
  site.saveMember({ id: 'one', name: 'Ada', team: '' }, 1);
  site.saveMember({ id: 'two', name: 'Bob', team: '' }, 1);
  for (const [peer, member] of [
    [P, 'one'],
    [Q, 'two'],
  ] as const)
    site.linkMember('b', peer, member);
  const secret = site.secret('addressKey', () => 'of the site');
  site.setActive('a');
  site.saveBesideRuns(['b']);
  const before = { a: said(site, 'a'), b: said(site, 'b') };

  const own = await emptyStore('own');
  own.fill(contentOfRun(site.content(), 'b'));
  expect(own.runNames()).toEqual(['b']);
  expect(said(own, 'b')).toEqual(before.b);
  expect(own.secret('addressKey', () => 'another')).toBe(secret);
  expect(own.besideRuns()).toEqual([]);

  own.setActive('b');
  own.commitStep('b', commit(2, 2.5), [{ peer: Q, tokens: 32 }]);
  for (const peer of ['r', 's']) own.addEvent('b', 'joined', `{"peer":"${peer}"}`, 8, 2);
  own.saveSetting('note b', 'a later note');
  site.addEvent('a', 'left', '{"peer":"x"}', 9, 2);
  site.deleteMember('two');
  const [atSite, atOwn] = [said(site, 'a'), said(own, 'b')];

  const back = await emptyStore('back');
  back.fill(withRun(withoutBeside(site.content()), own.content(), 'b'));
  expect(back.runNames()).toEqual(['a', 'b']);
  expect([back.activeRun()?.name, back.besideRuns()]).toEqual(['a', []]);
  expect(said(back, 'a')).toEqual(atSite);
  // Who gave up the name has none, whatever the run's own store still says.
  const credit = atOwn.credit.filter(({ id }) => id === 'one');
  expect(said(back, 'b')).toEqual({ ...atOwn, credit });
  expect(atOwn.steps).toHaveLength(3);
});
