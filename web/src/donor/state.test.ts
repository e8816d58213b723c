import { expect, test } from 'vitest';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import type { DonorPhase } from './phase.ts';
import { isStale } from './state.ts';

test('[DO21] what a tab shows of the run is old while nothing comes from the server, whoever told it', () => {
  const snapshot = { run: 'r' } as Snapshot; // there is one
  const away: DonorPhase = { kind: 'reconnecting', reason: 'server' };
  for (const phase of [away, { kind: 'paused', connected: false }] as const)
    expect(isStale({ phase, snapshot }, false)).toBe(true);
  for (const phase of [{ kind: 'computing' }, { kind: 'paused', connected: true }] as const)
    expect(isStale({ phase, snapshot }, true)).toBe(false);
  for (const isLost of [true, false]) expect(isStale({ phase: away, snapshot: null }, isLost)).toBe(isLost);
});
