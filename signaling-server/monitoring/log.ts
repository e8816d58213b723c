/** Words for the person at the terminal, on standard error: standard output is a command's result alone. */
import { pino } from 'pino';
import { wallMs } from './clock.ts';

const LEVELS = ['debug', 'info', 'warn'] as const;

export type Log = (level: (typeof LEVELS)[number], text: string) => void;

/** What is at least as important as `SHOAL_LOG` (debug, info, warn), else as `least`. For a collector of logs `SHOAL_LOG_FORMAT=json` gives a line of JSON each. */
export function terminalLog(least: (typeof LEVELS)[number] = 'info'): Log {
  const wanted = LEVELS.find((level) => level === process.env.SHOAL_LOG) ?? least;
  if (process.env.SHOAL_LOG_FORMAT === 'json') {
    const lines = pino({ name: 'shoal', level: wanted }, pino.destination({ fd: 2, sync: true }));
    return (level, text) => lines[level](text);
  }
  return (level, said) => {
    // A donor's words may be in it: the terminal obeys none of them.
    const text = said.replaceAll(/[\p{Cc}\p{Bidi_Control}]+/gu, ' ');
    if (LEVELS.indexOf(level) < LEVELS.indexOf(wanted)) return;
    const time = new Date(wallMs()).toISOString().slice(11, 19);
    process.stderr.write(`${time} ${level === 'warn' ? 'warning: ' : ''}${text}\n`);
  };
}

/** Of one level, before the rest is only counted: donors who come and go by the thousand fill no disk with words. */
const LINES_PER_MINUTE = 300;
const MINUTE_MS = 60_000;

/** The same log with so many lines a minute at most; `now` in milliseconds. */
export function boundedLog(log: Log, now: () => number): Log {
  const minutes = new Map<Parameters<Log>[0], { readonly beganMs: number; lines: number }>();
  return (level, text) => {
    const nowMs = now();
    let minute = minutes.get(level);
    if (minute === undefined || nowMs - minute.beganMs >= MINUTE_MS) {
      const left = (minute?.lines ?? 0) - LINES_PER_MINUTE;
      minute = { beganMs: nowMs, lines: 0 };
      minutes.set(level, minute);
      if (left > 0) log('warn', `${left} lines were left out: more than ${LINES_PER_MINUTE} in a minute`);
    }
    minute.lines += 1;
    if (minute.lines <= LINES_PER_MINUTE) log(level, text);
  };
}
