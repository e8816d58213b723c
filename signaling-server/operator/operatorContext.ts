/** What every call of the dashboard works on. */
import type { ApiMode } from '../../swarm/messages/apiKeys.ts';
import type { ApiKeys } from '../answers/apiKeys.ts';
import type { OwnAnswers } from '../answers/processorAnswerer.ts';
import type { Access, Hub } from '../http/access.ts';
import type { ActiveRun } from '../run/run.ts';
import type { SiteRuns } from '../run/siteRuns.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import type { AlertWatch } from './alertWatch.ts';
import type { Rehearsals } from './rehearsals.ts';
import type { OperatorSession } from './session.ts';

export interface OperatorContext {
  readonly run: ActiveRun;
  readonly data: DataDirectory;
  /** The folder of models' folders that runs may begin from; null: there is none. */
  readonly models: string | null;
  readonly session: OperatorSession;
  readonly access: Access;
  readonly hub: Hub;
  readonly rehearsals: Rehearsals;
  readonly own: OwnAnswers;
  /** Of those who may ask a model, and who may. */
  readonly keys: ApiKeys;
  readonly apiMode: ApiMode;
  /** On the disk where runs are kept; null: not known. */
  readonly freeBytes: () => number | null;
  readonly alerts: AlertWatch;
  /** The other runs of its site; absent: there are none. */
  readonly site?: SiteRuns | undefined;
  /** Changes to another run; absent where this server is for one run alone. */
  readonly onActivate?: ((run: string) => void) | undefined;
}
