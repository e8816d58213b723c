/** Words for the person at the terminal, on standard error: standard output is a command's result alone. */
import type { Log } from './run.ts';

const LEVELS = ['debug', 'info', 'warn'] as const;

/** What is at least as important as `SHOAL_LOG` (debug, info, warn), else as `least`. */
export function terminalLog(least: (typeof LEVELS)[number] = 'info'): Log {
  const wanted = LEVELS.find((level) => level === process.env.SHOAL_LOG) ?? least;
  return (level, text) => {
    if (LEVELS.indexOf(level) < LEVELS.indexOf(wanted)) return;
    const time = new Date().toISOString().slice(11, 19);
    process.stderr.write(`${time} ${level === 'warn' ? 'warning: ' : ''}${text}\n`);
  };
}
