/** What a run goes on with after its server, or its operator, took it back to a checkpoint. */
import { afterEach, expect, it } from 'vitest';
import type { LossScale } from '../../swarm/precision.ts';
import { type Manifest, parseManifest } from '../store/checkpointState.ts';
import type { Store } from '../store/store.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers, tinyRunFile } from '../testing/tinyServers.ts';

const STEPS = 4;
let servers: TinyServers;
afterEach(() => servers.close());

const manifestAt = (store: Store, step: number): Manifest => parseManifest(store.checkpoint('tiny', step) ?? '{}');

function withScale(store: Store, step: number, lossScale: LossScale): void {
  store.saveCheckpoint('tiny', step, JSON.stringify({ ...manifestAt(store, step), lossScale }));
}

it('[MP9] a checkpoint has the loss scale and its count; a run sent back to it and a server started from it go on with them', async () => {
  servers = new TinyServers({ steps: STEPS });
  servers.writeRun({ ...tinyRunFile({ steps: STEPS, checkpointEverySteps: 2 }), precision: { compute: 'f16' } });
  const { store } = await servers.data();
  const first = await servers.serve();
  const donor = new ScriptedDonor(first.url);
  await donor.hears('standby', ({ state }) => state === 'finished');
  expect(manifestAt(store, 2).lossScale).toEqual({ scale: 65_536, sound: 2 });
  expect(manifestAt(store, STEPS).lossScale).toEqual({ scale: 65_536, sound: STEPS });

  withScale(store, 2, { scale: 4_096, sound: 1_998 });
  first.run.sendBack(2);
  await donor.hears('start', ({ step, lossScale }) => step === 2 && lossScale === 4_096);
  await first.run.until(({ phase }) => phase === 'finished');
  expect(manifestAt(store, STEPS).lossScale).toEqual({ scale: 8_192, sound: 0 });

  await first.close();
  store.rollBack('tiny', 2);
  const second = await servers.serve();
  const again = new ScriptedDonor(second.url);
  const start = await again.hears('start');
  expect(start).toMatchObject({ step: 2, lossScale: 4_096 });
  await second.run.until(({ phase }) => phase === 'finished');
});
