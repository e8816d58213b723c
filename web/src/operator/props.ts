/** What the dashboard and its parts are given: what is known, and what a press of a button does. */
import type { Alert } from '../../../swarm/messages/alerts.ts';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import type { OperatorCommand } from '../../../swarm/messages/watch.ts';
import type { ListedRun } from '../../../swarm/run/runDraft.ts';
import type { Sign } from './signs.ts';
import type { OperatorState } from './state.ts';

interface OperatorActions {
  login(token: string): void;
  logout(): void;
  command(command: OperatorCommand): void;
  /** The server said that it changes to this run. */
  changes(run: string): void;
}

/** What the page is drawn from. */
export interface ViewProps {
  readonly state: OperatorState;
  readonly actions: OperatorActions;
}

/** What a part is given. */
export interface SectionProps extends ViewProps {
  readonly snapshot: Snapshot;
  readonly alerts: readonly Alert[];
}

/** What a row of the list of runs is given. */
export interface RowProps {
  readonly run: ListedRun;
  /** How the run of this dashboard stands; null: this is another one. */
  readonly active: Sign | null;
  /** The server changes to it at this moment. */
  readonly isNext: boolean;
  /** What is done to it is done on this dashboard. */
  readonly isHere: boolean;
  readonly canActivate: boolean;
  readonly canBeside: boolean;
  /** In the queue; below 0: it is not in it. */
  readonly place: number;
  readonly isOff: boolean;
  readonly tellServer: (path: string, body: unknown, done: string) => Promise<void>;
  readonly download: (address: string) => Promise<void>;
  /** Opens the form that pushes a checkpoint to the Hub. */
  readonly push: (run: ListedRun, step: number, generation?: number) => Promise<void>;
  readonly activate: (run: string) => Promise<void>;
  readonly clone: (run: ListedRun, checkpoint: number | null, generation?: number) => void;
}
