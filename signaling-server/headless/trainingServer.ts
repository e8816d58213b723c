/**
 * The server of a training, as the command that opened it sees it: the same few questions and orders whether it runs in
 * this process or, because it is to be killed, in one of its own or several (serverProcesses.ts).
 */
import type { PlanWishes } from '../../swarm/autoplan/wishes.ts';
import { type Result, success } from '../../swarm/base.ts';
import type { Conviction, Held } from '../../swarm/coordinator/events.ts';
import type { Snapshot } from '../../swarm/messages/snapshot.ts';
import type { DonorMemory } from '../donors/donorMemory.ts';
import { PAGES_FOLDER } from '../files/projectRoot.ts';
import type { Log } from '../monitoring/log.ts';
import type { Rehearsals } from '../operator/rehearsals.ts';
import type { RefusedDonor } from '../run/refusedDonors.ts';
import type { ActiveRun } from '../run/run.ts';
import { createServer } from '../server.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';

/** How a run stands, after each event that changed something to see. JSON has all of it. */
export interface RunStatus {
  readonly snapshot: Snapshot;
  readonly end: 'finished' | 'diverged' | 'stopped' | null;
  /** Questions of its newest evaluation are still to be answered. */
  readonly isAsking: boolean;
  /** It waits, because no plan can be made for the donors at hand. */
  readonly lacksPlan: boolean;
  /** The step that donors were told to do, or that is held back; null between two plans. */
  readonly announcedStep: number | null;
  /** Why the newest epoch began; empty: none did since the server started. */
  readonly epochReason: string;
  /** By changes of plan since the server started. */
  readonly movedBytes: number;
  /** The newest of whom the run threw out. */
  readonly refused: readonly RefusedDonor[];
  /** The newest of whom it convicted. */
  readonly convictions: readonly Conviction[];
  /** Bytes of each donor that is here and was ever ready: of its GPU, and of main memory. */
  readonly memory: readonly (DonorMemory & { readonly peer: string })[];
}

export interface TrainingServer {
  readonly url: string;
  /** What the headless donor of this number opens. */
  donorUrl(donor: number): string;
  readonly operatorToken: string;
  /** What its dashboard rehearses; absent where that is another process. */
  readonly rehearsals?: Rehearsals;
  status(): RunStatus;
  onChange(listener: () => void): () => void;
  /** Which steps wait for a donor that is on its way. */
  hold(held: Held): void;
  /** SIGKILL; then started again from what is kept, for so many donors who should come back. Absent where it is this process. */
  killAndRestart?(donors: number): Promise<Result<null>>;
  /** Stops at the next step boundary, with everything saved, and closes. */
  stop(): Promise<void>;
  /** Closes at once; what is committed stays committed. */
  close(): Promise<void>;
}

export interface TrainingOptions extends PlanWishes {
  readonly runName: string;
  /** No step before so many donors are there. */
  readonly expectedDonors: number;
  readonly steps?: number;
  readonly audit?: number;
  readonly metricsPath?: string;
  readonly recordPath?: string;
}

export function statusOf(run: ActiveRun): RunStatus {
  const { phase, committedSteps } = run.kept;
  const { name } = phase;
  return {
    snapshot: run.snapshot(),
    end: name === 'finished' || name === 'diverged' || name === 'stopped' ? name : null,
    isAsking: run.unasked !== null,
    lacksPlan: run.lacksPlan,
    announcedStep: phase.name === 'training' ? phase.step : name === 'holding' ? committedSteps : null,
    epochReason: run.history.epochReason,
    movedBytes: run.moved.sum,
    refused: run.refused.newest,
    convictions: run.refused.convictions,
    memory: run.memory.all(),
  };
}

/** In this process. To train is what the command was asked for, whatever an operator said before. */
export async function openTrainingServer(
  options: TrainingOptions & { readonly data: DataDirectory; readonly log: Log },
): Promise<Result<TrainingServer>> {
  options.data.store.setOperatorPaused(options.runName, false);
  const created = await createServer({ ...options, pages: PAGES_FOLDER, port: 0 });
  if (!created.ok) return created;
  const { url, ownDonorUrl, run, rehearsals, operatorToken, stop, close } = created.value;
  return success({
    url,
    donorUrl: () => ownDonorUrl,
    rehearsals,
    operatorToken: operatorToken(),
    status: () => statusOf(run),
    onChange: (listener) => run.onChange(listener),
    hold: (held) => run.hold(held),
    stop,
    close,
  });
}
