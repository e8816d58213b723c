/** What a session is given: its page, its engine, the run's files, time. */
import type { OpenEngine } from './joinedRun.ts';
import type { DonorPage } from './protocol.ts';
import type { RunFiles } from './runFiles.ts';

export interface SessionParts {
  readonly page: Pick<
    DonorPage,
    'sendServer' | 'sendFrame' | 'connect' | 'openAhead' | 'bar' | 'openDirect' | 'measure' | 'showStatus'
  >;
  readonly engine: OpenEngine;
  /** `token`: of the connection that there is now. */
  readonly files: (token: () => string) => RunFiles;
  /** Seconds, monotonic. */
  readonly now: () => number;
  readonly wait: (seconds: number) => Promise<void>;
}
