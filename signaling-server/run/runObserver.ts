/** Whoever follows a run: it is told what donors do, before the decisions are, and then what these ask for. */
import type { PeerId } from '../../swarm/base.ts';
import type { DecisionEffect } from '../../swarm/decisions/events.ts';
import type { Model } from '../../swarm/model/model.ts';
import type { Connection } from '../donors/connectedDonors.ts';
import type { RunMessage } from '../donors/reception.ts';
import { NotLeading, storageProblem } from '../files/storageProblem.ts';
import type { RunDocument } from '../store/runDocument.ts';

export type DonorEvent =
  /** Its GPU is checked: it may be planned for. */
  | { readonly type: 'joined'; readonly connection: Connection }
  | { readonly type: 'said'; readonly connection: Connection; readonly message: RunMessage }
  | { readonly type: 'gone'; readonly peer: PeerId; readonly detail: string };

export interface RunObserver {
  event?(event: DonorEvent): void;
  /** Nobody waits for what ends later; that it failed is counted. */
  effect?(effect: DecisionEffect): void | Promise<void>;
  /** Nothing comes any more. */
  close?(): void;
}

/** What an observer may ask of its run. */
export interface Observed {
  readonly name: string;
  readonly document: RunDocument;
  readonly model: Model;
  readonly committedSteps: number;
}

/** All of them, whatever one cannot write any more. */
export function closeAll(
  observers: readonly RunObserver[],
  run: { warn(text: string): void; failed(error: unknown): void },
): void {
  const problems = new Set<string>();
  for (const observer of observers) {
    try {
      observer.close?.();
    } catch (error) {
      if (error instanceof NotLeading) continue; // what it did last is done again where the run goes on
      const problem = storageProblem(error);
      if (problem === null) run.failed(error);
      else problems.add(problem);
    }
  }
  for (const problem of problems)
    run.warn(`The last lines of the metrics file, or what the last steps took, could not be kept: ${problem}.`);
}
