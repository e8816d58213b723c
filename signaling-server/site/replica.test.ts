import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { lookOf } from '../../swarm/messages/publicName.ts';
import type { Value } from '../store/queries.ts';
import { SCHEMA_VERSION } from '../store/schema.ts';
import { Replica } from './replica.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'shoal-replica-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

test('a journal that version 13 began: names it wrote are found by their look once a newer one leads', () => {
  const replica = new Replica(directory);
  const write = (number: number, sql: string, ...values: Value[]): void =>
    replica.apply({ type: 'writes', transactions: [{ number, writes: [[sql, ...values]] }] });
  const named = (name: string) => replica.many('SELECT id FROM member WHERE look = ?', lookOf(name));
  replica.apply({ type: 'leads', version: 13 });
  write(1, 'INSERT INTO member VALUES (?, ?, ?, ?)', 'm', 'Ada Lovelace', '', 7);
  replica.apply({ type: 'leads', version: SCHEMA_VERSION });
  expect(named('АDA L0VELACE')).toEqual([{ id: 'm' }]);
  write(2, 'DELETE FROM member WHERE id = ?', 'm');
  expect([named('Ada Lovelace'), replica.applied]).toEqual([[], 2]);
  replica.close();
});
