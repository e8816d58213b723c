import { expect, it } from 'vitest';
import { invariant, type Result } from '../../swarm/base.ts';
import { TinyServers } from '../testing/tinyServers.ts';
import { addRun, openDataDirectory } from './dataDirectory.ts';
import { copyData } from './storeCopy.ts';

function need<T>(result: Result<T>): T {
  invariant(result.ok, result.ok ? '' : result.reason);
  return result.value;
}

it('[NA89] what is never kept is given up, with the reason', async () => {
  const servers = new TinyServers({ steps: 4 }, false);
  const from = await servers.data();
  const to = need(await openDataDirectory(`${servers.folder}/to`, false));
  try {
    need(await addRun(from, servers.runPath));
    const store: typeof to.store = {
      ...to.store,
      kept: () => new Promise(() => {}),
      onStall: (listener) => {
        listener('NATS does not answer');
        return () => {};
      },
    };
    expect(await copyData(from, { ...to, store }, [], 1)).toEqual({
      ok: false,
      reason: 'nothing is copied: NATS does not answer. When that is mended, copy again',
    });
  } finally {
    to.close();
    await servers.close();
  }
});
