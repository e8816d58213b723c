/** What an operator told a run, as the history and a plan's reason tell it: in the past, without who did it. */
import type { OperatorCommand } from './events.ts';

export const COMMANDED: Readonly<Record<OperatorCommand, string>> = {
  start: 'started the run',
  pause: 'paused the run',
  resume: 'resumed the run',
  stop: 'stopped the run',
};
