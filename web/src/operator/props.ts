/** What the dashboard and its parts are given: what is known, and what a press of a button does. */

import type { Alert } from '../../../swarm/messages/alerts.ts';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import type { OperatorCommand } from '../../../swarm/messages/watch.ts';
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
