/**
 * A whole training with headless donors: server, donors one after the other, to the run's end or until it is
 * interrupted; then nothing of it is left running. `swarm` and `demo` are this with different words around it.
 */
import { type Result, refusal, success } from '../swarm/base.ts';
import { closeAll, type HeadlessDonor, openHeadlessDonor } from './headless.ts';
import { aborted } from './interrupt.ts';
import type { PlanWishes } from './planning.ts';
import type { ActiveRun, Log } from './run.ts';
import { createServer, type Server, type ServerOptions } from './server.ts';

export interface Training extends PlanWishes, Pick<ServerOptions, 'data' | 'runName' | 'steps' | 'metricsPath'> {
  readonly donors: number;
  readonly pages: string;
  readonly log: Log;
  readonly interrupt: AbortSignal;
  readonly onServing?: (server: Server) => void;
  readonly onOpened?: (opened: number) => void;
  readonly onChange?: (run: ActiveRun) => void;
}

export type Outcome = 'finished' | 'interrupted';

/** The run's end, seen from outside: what it ended with is in the store. */
export interface Trained {
  readonly outcome: Outcome;
  readonly run: ActiveRun;
}

export async function trainHeadless(training: Training): Promise<Result<Trained>> {
  const { donors: count, interrupt, log, data, runName } = training;
  data.store.setOperatorPaused(runName, false); // to train is what this command was asked for
  const created = await createServer({ ...training, port: 0, expectedDonors: count });
  if (!created.ok) return created;
  const server = created.value;
  const donors: HeadlessDonor[] = [];
  try {
    training.onServing?.(server);
    server.run.onChange(() => training.onChange?.(server.run));
    const work = server.run.phase === 'finished' ? Promise.resolve(null) : openAndTrain(server, training, donors);
    const stopped = server.run.until(({ isAtRest }) => isAtRest); // by the operator's button
    const interrupted = Promise.race([aborted(interrupt), stopped]).then(() => 'interrupted' as const);
    const problem = await Promise.race([work, interrupted]);
    if (problem === 'interrupted') {
      log('info', 'stopping at the next step boundary');
      await server.stop();
      return success({ outcome: 'interrupted', run: server.run });
    }
    return problem === null ? success({ outcome: 'finished', run: server.run }) : refusal(problem);
  } finally {
    server.run.close(); // first: that the donors now go is no news
    await closeAll(donors);
    await server.close();
  }
}

/** Null when the run is finished, else why it never will be. `donors` grows as they are opened. */
async function openAndTrain(server: Server, training: Training, donors: HeadlessDonor[]): Promise<string | null> {
  const { run } = server;
  let living = 0;
  const allGone = new Promise<string>((resolve) => {
    const open = async (): Promise<void> => {
      for (let number = 0; number < training.donors; number++) {
        if (training.interrupt.aborted) return;
        const donor = await openHeadlessDonor(server.url, number, training.log);
        if (!donor.ok) return resolve(donor.reason);
        donors.push(donor.value);
        living++;
        void donor.value.ended.then((reason) => {
          training.log('debug', `donor ${number}: ${reason}`);
          living--;
          if (living === 0) resolve(`every donor is gone, the last one because ${reason}`);
        });
        training.onOpened?.(donors.length);
      }
    };
    void open().catch((error: unknown) => resolve(error instanceof Error ? error.message : String(error)));
  });
  const finished = run.until(({ phase }) => phase === 'finished').then(() => null);
  const failed = run.until(({ phase }) => phase === 'failed').then(() => run.snapshot().sentence);
  return Promise.race([finished, failed, allGone]);
}
