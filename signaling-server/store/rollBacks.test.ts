import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openStore } from './openStore.ts';
import { addRollBack, rollBacksSince } from './rollBacks.ts';
import type { Store } from './store.ts';

it('roll-backs are there for the next server, but for those before', () => {
  const folder = mkdtempSync(join(tmpdir(), 'shoal-'));
  const opened = (): Store => {
    const store = openStore(folder);
    if (!store.ok) throw new Error(store.reason);
    return store.value.store;
  };
  const back = (atStep: number) => ({ atStep, toStep: atStep - 2, reason: `at ${atStep}` });
  const first = opened();
  first.addRun('a', 'hash', '{}', 'zero', 0);
  addRollBack(first, 'a', back(3), 0);
  const since = first.newestEvent();
  addRollBack(first, 'a', back(5), 0);
  first.close();
  const next = opened();
  addRollBack(next, 'a', back(7), 0);
  expect(rollBacksSince(next, 'a', since)).toEqual([back(5), back(7)]);
  next.close();
  rmSync(folder, { recursive: true });
});
