/**
 * How a command ends when it cannot do what it was asked: one sentence, and exit code 2 (bad input) or 1; of `swarm` also 3 (a
 * loss was not reached) or 4 (its time is over).
 */
import type { Result } from '../../swarm/base.ts';

export class CommandFailure extends Error {
  readonly exitCode: 1 | 2 | 3 | 4;

  constructor(sentence: string, exitCode: CommandFailure['exitCode']) {
    super(oneLine(sentence));
    this.exitCode = exitCode;
  }
}

const LONGEST = 1_000;

/** What a file or a library put into a sentence is shown on its one line, and its terminal obeys none of it. */
export function oneLine(sentence: string): string {
  const line = sentence.replaceAll(/\p{Cc}+/gu, (found) => JSON.stringify(found).slice(1, -1));
  return line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line;
}

/** Bad arguments, or a bad input file. */
export const badInput = (sentence: string): CommandFailure => new CommandFailure(sentence, 2);
export const failed = (sentence: string): CommandFailure => new CommandFailure(sentence, 1);

/** The value, or the end of the command. */
export function need<T>(result: Result<T>, kind: (sentence: string) => CommandFailure): T {
  if (!result.ok) throw kind(result.reason);
  return result.value;
}

/** Of an option that must be there. Said here, not by commander, which would say it before it names a misspelt one. */
export function mustHave<T>(option: string, value: T | undefined, sample?: string): T {
  if (value === undefined)
    throw badInput(`required option '${option}' not specified${sample === undefined ? '' : `, for example ${sample}`}`);
  return value;
}
