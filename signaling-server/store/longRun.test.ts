/** What pages ask all the time is kept with each commit: it equals what a walk over the whole run gives. */
import { DatabaseSync } from '@photostructure/sqlite';
import { expect, test } from 'vitest';
import { peerId, seededRandom } from '../../swarm/base.ts';
import type { CommitRecord } from '../../swarm/coordinator/events.ts';
import { MIGRATIONS } from './schema.ts';
import { type Store, storeOn } from './store.ts';

const SEED = 20_261_122;
const DONORS = ['a', 'b', 'c', 'd', 'e'].map(peerId);

const commit = (step: number): CommitRecord => ({
  ...{ step, loss: 5 - step / 10, gradientNorm: 1, learningRate: 0.1, tokens: 256, seconds: 1, donors: 1, stages: 1 },
  ...{ microBatches: 1, plan: 1, bytesDirect: 0, bytesRelayed: 0 },
});

function inMemory(): { readonly store: Store; readonly database: InstanceType<typeof DatabaseSync> } {
  const database = new DatabaseSync(':memory:');
  const opened = storeOn(database);
  opened.addRun('r', 'hash', '{}', 'zero', 0);
  opened.addRun('other', 'hash', '{}', 'zero', 0);
  return { store: opened, database };
}

type Totals = readonly { readonly id: string; readonly tokens: number }[];
/** Tokens are shares: added and taken away again they may differ in the last bit. */
function expectAlike(totals: Totals, walked: Totals, when: string): void {
  expect(
    totals.map(({ id }) => id),
    when,
  ).toEqual(walked.map(({ id }) => id));
  for (const [index, { tokens }] of totals.entries()) expect(tokens, when).toBeCloseTo(walked[index]?.tokens ?? -1, 6);
}

test('credit, counts and curves equal a walk over the whole run, through commits and roll-backs', () => {
  const { store, database } = inMemory();
  const random = seededRandom(SEED);
  store.saveMember({ id: 'ada', name: 'Ada', team: '' }, 0);
  for (const peer of DONORS.slice(1, 3)) store.linkMember('r', peer, 'ada');
  const all = (sql: string) => database.prepare(sql).all() as { id: string; tokens: number }[];
  for (let round = 0; round < 400; round++) {
    const committed = store.committedSteps('r');
    const when = `seed ${SEED}, round ${round}`;
    if (random() < 0.1) store.rollBack('r', Math.floor(random() * (committed + 1)));
    else {
      const part = DONORS.filter(() => random() < 0.5).map((peer) => ({ peer, tokens: random() * 1e6 }));
      store.commitStep('r', commit(committed), part);
      store.commitStep('other', commit(round), part);
      if (random() < 0.3) store.saveEvaluation('r', committed + 1, random());
    }
    expect(store.committedSteps('r'), when).toBe(store.steps('r').length);
    const ledger = store.ledger('r').map(({ peer, tokens }) => ({ id: String(peer), tokens }));
    const walked =
      "SELECT donor AS id, sum(tokens) AS tokens FROM ledger WHERE run = 'r' GROUP BY donor ORDER BY donor";
    expectAlike(ledger, all(walked), when);
    const ofAda = ledger.filter(({ id }) => id === 'b' || id === 'c').reduce((sum, { tokens }) => sum + tokens, 0);
    expect(store.memberCredit('r')[0]?.tokens, when).toBeCloseTo(ofAda, 6);
    const [until, count] = [Math.floor(random() * (committed + 3)), 1 + Math.floor(random() * 30)];
    const every = Math.max(1, Math.ceil(until / count));
    expect(store.stepsSpread('r', until, count), when).toEqual(
      store.steps('r').filter(({ step }) => step < until && step % every === 0),
    );
    expect([...store.newestEvaluations('r', 7)], when).toEqual([...store.evaluations('r')].slice(-7));
  }
});

test('a store from before credit was kept has it from its ledger', () => {
  const database = new DatabaseSync(':memory:');
  database.exec(`${MIGRATIONS.slice(0, 6).join(';')}; PRAGMA user_version = 6`);
  database.exec(
    `INSERT INTO run (name, contentHash, document, createdAtMs) VALUES ('r', 'hash', '{}', 0);
     INSERT INTO ledger VALUES ('r', 0, 'a', 1.5), ('r', 1, 'a', 1.5), ('r', 2, 'a', 1.5)`,
  );
  const again = storeOn(database);
  expect(again.ledger('r')).toEqual([{ peer: 'a', tokens: 4.5 }]);
  again.rollBack('r', 0);
  expect(again.ledger('r')).toEqual([]);
});
