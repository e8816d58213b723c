/** What of a run the store keeps. */

import type { Uploads } from '../donors/uploads.ts';
import { wallMs } from '../monitoring/clock.ts';
import { parseManifest } from '../store/checkpointState.ts';
import { copied, largestGradient, saveCheckpoint } from '../store/checkpoints.ts';
import { addRollBack } from '../store/rollBacks.ts';
import type { Observed, RunObserver } from './runObserver.ts';
import type { RunOptions } from './runOptions.ts';

export const runRecords = ({ store, blobs, name, log }: RunOptions, run: Observed, uploads: Uploads): RunObserver => ({
  event: (event) => {
    if (event.type === 'joined' && event.connection.member !== null)
      store.linkMember(name, event.connection.peer, event.connection.member);
    // Nobody is named for what was never done: who comes and goes would fill the list.
    if (event.type === 'gone') store.unlinkPeer(name, event.peer);
  },
  effect: (effect) => {
    switch (effect.type) {
      case 'storeCommit':
        return store.commitStep(name, effect.record, effect.ledger, JSON.stringify(effect.applied));
      case 'storeMeeting':
        return store.addMeeting(name, effect.committedSteps, effect.bytesDirect, effect.bytesRelayed);
      case 'islandEnded':
        return store.endIsland(name, effect.island, effect.from);
      case 'storeEvaluation':
        return store.saveEvaluation(name, effect.committedSteps, effect.loss);
      case 'storeCheckpoint': {
        const { step, shards, lossScale, undoableFrom } = effect;
        const { gradientClipNorm } = run.document.file.train;
        const base = store.newestCheckpoint(name);
        const largest = base && largestGradient(store, name, parseManifest(base.manifest), step, gradientClipNorm);
        const manifest = {
          ...{ step, shards: shards.map((shard) => ({ ...shard, moments: true })) },
          ...(lossScale ? { lossScale } : {}),
          ...(largest !== null && Number.isFinite(largest) ? { largestGradient: largest } : {}),
        };
        const spared = { awaited: uploads.awaited(), undoableFrom };
        return saveCheckpoint(store, blobs, name, manifest, spared).then(() => copied(store, log));
      }
      case 'rollBack':
        store.rollBack(name, effect.toStep);
        return addRollBack(store, name, effect, wallMs());
      case 'convicted':
        return store.voidCredit(name, effect.peer);
      case 'storeEpoch':
        return store.saveEpoch(name, effect.epoch, effect.generation, JSON.stringify(effect.plan), effect.reason);
      case 'recordPlan': {
        const { epoch, schedule, predictedSeconds, reasons } = effect;
        const detail = JSON.stringify({ epoch, schedule, predictedSeconds, reasons });
        return store.addEvent(name, 'planned', detail, wallMs(), run.committedSteps);
      }
      case 'keepProfile':
        return store.saveProfile(name, effect.rememberedAs, effect.profile, wallMs());
      case 'storePaused':
        return store.setOperatorPaused(name, effect.paused);
    }
  },
});
