import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { peerId } from '../../swarm/base.ts';
import type { CommitRecord } from '../../swarm/coordinator/events.ts';
import { islandsOf } from '../../swarm/testing/islands.ts';
import { MetricsFile } from '../run/metricsFile.ts';
import { keepSums } from './checksums.ts';
import { STORE_FILE } from './copies.ts';
import { lockDataDirectory } from './dataLock.ts';
import { openStore } from './openStore.ts';
import { MIGRATIONS, SCHEMA_VERSION } from './schema.ts';
import type { RightAnswers } from './stepStore.ts';
import { migrate, prepareConnection, type Store } from './store.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'shoal-store-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function opened(): Store {
  const store = openStore(directory);
  if (!store.ok) throw new Error(store.reason);
  return store.value.store;
}

/** So many events at once, as a long run has them: each by itself is a write to the disk. */
function fillHistory(events: number): void {
  const database = new DatabaseSync(join(directory, STORE_FILE));
  database.exec(
    `WITH RECURSIVE number(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM number WHERE i + 1 < ${events})
     INSERT INTO event (run, atMs, step, kind, detail) SELECT 'a', i, 0, 'joined', CAST(i AS TEXT) FROM number`,
  );
  database.close();
}

const commit = (step: number): CommitRecord => ({
  step,
  loss: 5 - step / 10,
  gradientNorm: 1.5,
  learningRate: 0.001,
  tokens: 256,
  seconds: 0.25,
  donors: 2,
  stages: 2,
  microBatches: 8,
  plan: 1,
  bytesDirect: 1_000,
  bytesRelayed: 0,
});

describe('store', () => {
  it('reads rows as plain data, which decisions record', () => {
    const store = opened();
    store.addRun('a', 'hash', '{}', 'zero', 0);
    store.addEvent('a', 'joined', '{}', 7);
    store.saveCheckpoint('a', 0, '{}');
    for (const row of [...store.history('a', 0, 1), store.newestCheckpoint('a')])
      expect(Object.getPrototypeOf(row)).toBe(Object.prototype);
  });

  it('keeps commits, ledger and evaluations over a restart', () => {
    const first = opened();
    first.addRun('a', 'hash', '{}', 'zero', 0);
    first.setActive('a');
    for (const step of [0, 1, 2]) first.commitStep('a', commit(step), [{ peer: peerId('p'), tokens: 128.5 }]);
    first.saveEvaluation('a', 2, 4.5);
    first.close();
    const again = opened();
    expect(again.activeRun()).toMatchObject({ name: 'a', contentHash: 'hash', operatorPaused: false });
    expect(again.committedSteps('a')).toBe(3);
    expect(again.steps('a', 1)).toEqual([commit(1), commit(2)]);
    expect([...again.evaluations('a')]).toEqual([[2, 4.5]]);
    expect(again.ledger('a')).toEqual([{ peer: 'p', tokens: 385.5 }]);
    again.close();
  });

  it('takes back everything that was made of steps given up', () => {
    const store = opened();
    store.addRun('a', 'hash', '{}', 'zero', 0);
    for (const step of [0, 1, 2, 3]) store.commitStep('a', commit(step), [{ peer: peerId('p'), tokens: 1 }]);
    store.saveEvaluation('a', 2, 4);
    store.saveEvaluation('a', 3, 3);
    for (const steps of [2, 3]) store.saveRightAnswers('a', steps, { share: steps / 4, fromStep: steps, toStep: 3 });
    store.saveCheckpoint('a', 2, 'two');
    store.rollBack('a', 2);
    expect([...store.rightAnswers('a')]).toEqual([[2, { share: 0.5, fromStep: 2, toStep: 3 }]]);
    expect([2, 3].map((steps) => store.isAsked('a', steps))).toEqual([true, false]);
    expect(store.steps('a').map(({ step }) => step)).toEqual([0, 1]);
    expect([...store.evaluations('a').keys()]).toEqual([2]);
    expect(store.ledger('a')).toEqual([{ peer: 'p', tokens: 2 }]);
    expect(store.newestCheckpoint('a')).toEqual({ committedSteps: 2, manifest: 'two' });
    store.close();
  });

  it('[IS85] an island that has ended: its steps since the meeting never were, nor what they earned; the others close up', () => {
    const store = opened();
    store.addRun('a', 'hash', '{}', 'zero', 0);
    const islands = [0, 1, 0, 1, 0, 1, 1, 0];
    for (const [step, island] of islands.entries()) {
      const record = { ...commit(step), number: 10 * step, island, round: step < 4 ? 0 : 1, innerStep: 0 };
      store.commitStep('a', record, [{ peer: peerId(`p${island}`), tokens: 2 ** step }]);
      store.saveTraces('a', [{ step, epoch: island, bubble: 0.5, spans: String(step) }]);
    }
    store.endIsland('a', 1, 3);
    expect(store.steps('a').map(({ step, number, island }) => [step, number, island])).toEqual([
      ...[
        [0, 0, 0],
        [1, 10, 1],
        [2, 20, 0],
      ],
      ...[
        [3, 40, 0],
        [4, 70, 0],
      ],
    ]);
    expect(store.ledger('a')).toEqual([
      { peer: 'p0', tokens: 1 + 4 + 16 + 128 },
      { peer: 'p1', tokens: 2 },
    ]);
    expect(store.ledgerFrom('a', 4)).toEqual([{ peer: 'p0', tokens: 128 }]);
    expect([3, 4, 5].map((step) => store.trace('a', step)?.spans)).toEqual(['4', '7', '7']);
    expect(store.committedSteps('a')).toBe(5);
    store.endIsland('a', 0, 3);
    store.commitStep('a', { ...commit(3), number: 30, island: 2, round: 1, innerStep: 0 }, []);
    expect(store.steps('a', 3)).toHaveLength(1);
    store.close();
    expect(opened().steps('a').length).toBe(4);
  });

  it('keeps checkpoints until they are deleted', () => {
    const store = opened();
    store.addRun('a', 'hash', '{}', 'zero', 0);
    expect(store.newestCheckpoint('a')).toEqual({ committedSteps: 0, manifest: 'zero' });
    store.saveCheckpoint('a', 3, 'three');
    store.saveCheckpoint('a', 6, 'six');
    store.deleteCheckpoint('a', 0);
    expect(store.newestCheckpoint('a')).toEqual({ committedSteps: 6, manifest: 'six' });
    expect(store.checkpoint('a', 3)).toBe('three');
    expect(store.checkpoint('a', 0)).toBeNull();
    expect(store.manifests()).toEqual(['three', 'six']);
    store.close();
  });

  it('migrates an older store and refuses a newer one', () => {
    const file = join(directory, STORE_FILE);
    const old = new DatabaseSync(file);
    old.exec('PRAGMA user_version = 0');
    old.close();
    const store = opened();
    expect(store.runNames()).toEqual([]);
    store.close();
    const newer = new DatabaseSync(file);
    newer.exec(`PRAGMA user_version = ${SCHEMA_VERSION + 1}; UPDATE tally SET sum = sum + 1 WHERE name = 'version'`);
    newer.close();
    expect(openStore(directory)).toEqual({ ok: false, reason: expect.stringContaining('newer version of shoal') });
  });

  it('takes a store of version 1 along, with what is in it', () => {
    const old = new DatabaseSync(join(directory, STORE_FILE));
    old.exec(`${MIGRATIONS[0]}; PRAGMA user_version = 1`);
    old.exec("INSERT INTO run (name, contentHash, document, createdAtMs) VALUES ('a', 'hash', '{}', 7)");
    old.exec("INSERT INTO checkpoint VALUES ('a', 4, 'four')");
    old.exec(
      `INSERT INTO event (run, atMs, kind, detail) VALUES
        ('a', 1, 'joined', 'p {"adapter":{}}'), ('a', 2, 'gone', 'p: lost: x'), ('a', 3, 'left', 'p'), ('a', 4, 'checkpoint', '')`,
    );
    old.close();
    const store = opened();
    expect(store.history('a', 0, 9).map(({ kind, detail }) => [kind, JSON.parse(detail)])).toEqual([
      ['joined', { peer: 'p', adapter: {} }],
      ['gone', { peer: 'p', detail: 'lost: x' }],
      ['left', { peer: 'p' }],
      ['checkpoint', {}],
    ]);
    expect(store.checkpoints('a')).toEqual([{ committedSteps: 4, kept: false }]);
    expect(store.createdAtMs('a')).toBe(7);
    store.close();
  });

  it('takes a store of version 13 along: its names are found by their look', () => {
    const old = new DatabaseSync(join(directory, STORE_FILE));
    prepareConnection(old);
    migrate(old, 13);
    keepSums(old);
    old.exec("INSERT INTO member VALUES ('m', 'Ada Lovelace', '', 7)");
    old.close();
    const store = opened();
    expect([store.memberNamed('АDA L0VELACE'), store.memberNamed('Ada')]).toEqual(['m', null]);
    store.close();
  });

  it('bounds the history; donors’ events push no operator’s out', () => {
    const store = opened();
    store.addRun('a', 'hash', '{}', 'zero', 0);
    store.addEvent('a', 'operator', 'pause', 0, 3);
    fillHistory(10_100);
    for (let i = 10_100; i < 10_200; i++) store.addEvent('a', 'joined', String(i), i);
    expect([store.lastEventMs('a', 'joined'), store.lastEventMs('a', 'checkpoint')]).toEqual([10_199, null]);
    const all = store.history('a', 0, 20_000);
    expect(all[0]).toMatchObject({ kind: 'operator', step: 3 });
    expect(all.length).toBeLessThan(10_100);
    expect(all.at(-1)?.detail).toBe('10199');
    expect(store.history('a', all.at(-3)?.id ?? 0, 9).map(({ detail }) => detail)).toEqual(['10198', '10199']);
    store.close();
  });

  it('keeps the spans of the newest steps', () => {
    const store = opened();
    store.addRun('a', 'hash', '{}', 'zero', 0);
    const trace = (step: number) => ({ step, epoch: 1, bubble: 0.25, spans: `of ${step}` });
    expect(store.traceRange('a')).toBeNull();
    for (let step = 0; step < 300; step += 2) store.saveTraces('a', [trace(step), trace(step + 1)]);
    expect(store.traceRange('a')).toEqual([44, 299]);
    expect(store.trace('a', 50)).toEqual(trace(50));
    expect(store.bubbles('a', 298)).toEqual(new Map([298, 299].map((step) => [step, 0.25])));
    store.rollBack('a', 100);
    expect(store.trace('a', 200)?.step).toBe(99);
    store.close();
  });

  it('what is kept stays over roll-backs, apart from what a run goes on from', () => {
    const store = opened();
    store.addRun('a', 'hash', '{}', 'zero', 0);
    for (const step of [2, 4, 6]) store.saveCheckpoint('a', step, `first ${step}`);
    for (const step of [2, 6]) store.keepCheckpoint('a', step, true);
    store.rollBack('a', 2);
    expect(store.newestCheckpoint('a')).toEqual({ committedSteps: 2, manifest: 'first 2' });
    expect([store.committedSteps('a'), store.checkpoint('a', 6)]).toEqual([2, null]);
    expect(store.checkpoints('a')).toEqual([
      { committedSteps: 0, kept: false },
      { committedSteps: 2, kept: true },
    ]);
    store.saveCheckpoint('a', 6, 'second 6');
    store.keepCheckpoint('a', 6, true);
    store.rollBack('a', 0);
    const former = (steps: number, generation: number) => ({ committedSteps: steps, generation });
    expect(store.formerCheckpoints('a')).toEqual([former(6, 0), former(2, 1), former(6, 1)]);
    expect([0, 1].map((generation) => store.checkpoint('a', 6, generation))).toEqual(['first 6', 'second 6']);
    expect(store.manifests().sort()).toEqual(['first 2', 'first 6', 'second 6', 'zero']);
    store.deleteCheckpoint('a', 6, 0);
    expect(store.formerCheckpoints('a')).toEqual([former(2, 1), former(6, 1)]);
    store.close();
  });

  it('spreads a long run’s steps', () => {
    const store = opened();
    store.addRun('a', 'hash', '{}', 'zero', 0);
    for (let step = 0; step < 50; step++) store.commitStep('a', commit(step), []);
    expect(store.stepsSpread('a', 40, 10).map(({ step }) => step)).toEqual([0, 4, 8, 12, 16, 20, 24, 28, 32, 36]);
    store.close();
  });

  it('makes a secret once', () => {
    const store = opened();
    expect(store.secret('key', () => 'first')).toBe('first');
    expect(store.secret('key', () => 'second')).toBe('first');
    store.close();
  });
});

describe('data directory lock', () => {
  it('refuses a second server and frees the directory on release', () => {
    const first = lockDataDirectory(directory);
    expect(first.ok).toBe(true);
    expect(lockDataDirectory(directory)).toEqual({ ok: false, reason: expect.stringContaining('in use by another') });
    if (first.ok) first.value.release();
    const second = lockDataDirectory(directory);
    expect(second.ok).toBe(true);
    if (second.ok) second.value.release();
  });

  it('does not outlive a server that is killed', async () => {
    const program = `
      import { DatabaseSync } from '@photostructure/sqlite';
      // Reachable: collected as garbage it would be closed, and the lock let go.
      globalThis.held = new DatabaseSync(${JSON.stringify(join(directory, 'lock.sqlite'))});
      globalThis.held.exec('BEGIN EXCLUSIVE');
      console.log('held');
      setInterval(() => {}, 1000);`;
    const owner = execFile(process.execPath, ['--input-type=module', '-e', program]);
    await new Promise((resolve) => owner.stdout?.once('data', resolve));
    expect(lockDataDirectory(directory).ok).toBe(false);
    const gone = new Promise((resolve) => owner.once('exit', resolve));
    owner.kill('SIGKILL');
    await gone;
    const lock = lockDataDirectory(directory);
    expect(lock.ok).toBe(true);
    if (lock.ok) lock.value.release();
  });
});

describe('metrics file', () => {
  it('has every committed step once, whatever happened', () => {
    let records = [commit(0), commit(1)];
    const evaluations = new Map<number, number>();
    const answers = new Map<number, RightAnswers>();
    const path = join(directory, 'metrics.jsonl');
    const stepsInFile = () =>
      readFileSync(path, 'utf8')
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line));
    const metrics = new MetricsFile(path, {
      train: { steps: 4 },
      steps: (from) => records.filter(({ step }) => step >= from),
      evaluations: () => evaluations,
      rightAnswers: () => answers,
      isEvaluationDue: (committedSteps) => committedSteps === 3,
    });
    expect(stepsInFile()).toEqual([commit(0), commit(1)]);

    records.push(commit(2));
    metrics.append();
    expect(stepsInFile()).toHaveLength(2); // its held-out loss is still to come
    evaluations.set(3, 4.25);
    metrics.append();
    expect(stepsInFile()).toEqual([commit(0), commit(1), { ...commit(2), evaluationLoss: 4.25 }]);
    answers.set(3, { share: 0.5, fromStep: 3, toStep: 4 });
    metrics.rewrite(); // its answers come later
    const right = { answersRight: 0.5, answersFromStep: 3, answersToStep: 4 };
    expect(stepsInFile().at(-1)).toEqual({ ...commit(2), evaluationLoss: 4.25, ...right });

    records = [commit(0)];
    evaluations.clear();
    metrics.rewrite();
    expect(stepsInFile()).toEqual([commit(0)]);
    records.push(commit(1), commit(2));
    metrics.append();
    metrics.append(true);
    expect(stepsInFile().map(({ step }) => step)).toEqual([0, 1, 2]);
  });

  it('has a round of islands when it is committed, by the numbers of its steps', () => {
    const records = [0, 1, 2].map((step) => ({ ...commit(step), loss: step }));
    const evaluations = new Map([[0, 9]]);
    const path = join(directory, 'islands.jsonl');
    const lines = () =>
      readFileSync(path, 'utf8')
        .split('\n')
        .filter(Boolean)
        .map((line): unknown => JSON.parse(line));
    const metrics = new MetricsFile(path, {
      train: { steps: 6, islands: islandsOf(2, 2) },
      steps: (from) => records.slice(from),
      evaluations: () => evaluations,
      rightAnswers: () => new Map([[4, { share: 0.25, fromStep: 4, toStep: 5 }]]),
      isEvaluationDue: (committedSteps) => committedSteps % 4 === 0,
    });
    expect(lines()).toEqual([]);
    records.push({ ...commit(3), loss: 3 });
    metrics.append();
    expect(lines()).toEqual([]); // the meeting's held-out loss is still to come
    evaluations.set(4, 4.25);
    metrics.append();
    // Committed in the order 0, 2, 1, 3.
    const right = { answersRight: 0.25, answersFromStep: 4, answersToStep: 5 };
    const round = [
      { ...commit(0), loss: 0, island: 0, round: 0, innerStep: 0 },
      { ...commit(1), loss: 2, island: 1, round: 0, innerStep: 0 },
      { ...commit(2), loss: 1, island: 0, round: 0, innerStep: 1 },
      { ...commit(3), loss: 3, island: 1, round: 0, innerStep: 1, evaluationLoss: 4.25, ...right },
    ];
    expect(lines()).toEqual(round);
    records.push({ ...commit(4), loss: 4 });
    metrics.append(true);
    expect(lines()).toEqual(round);
    records.push({ ...commit(5), loss: 5 });
    metrics.append();
    expect(lines().slice(4)).toEqual([
      { ...commit(4), loss: 4, island: 0, round: 1, innerStep: 0 },
      { ...commit(5), loss: 5, island: 1, round: 1, innerStep: 0 },
    ]);
    metrics.rewrite();
    expect(lines()).toHaveLength(6);
  });
});
