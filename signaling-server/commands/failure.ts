/** How a command ends when it cannot do what it was asked: one sentence and an exit code, the contract's two kinds. */
import type { Result } from '../../swarm/base.ts';

export class CommandFailure extends Error {
  readonly exitCode: 1 | 2;

  constructor(sentence: string, exitCode: 1 | 2) {
    super(sentence);
    this.exitCode = exitCode;
  }
}

/** Bad arguments, or a bad input file. */
export const badInput = (sentence: string): CommandFailure => new CommandFailure(sentence, 2);
export const failed = (sentence: string): CommandFailure => new CommandFailure(sentence, 1);

/** The value, or the end of the command. */
export function need<T>(result: Result<T>, kind: (sentence: string) => CommandFailure): T {
  if (!result.ok) throw kind(result.reason);
  return result.value;
}

export const COMES_LATER = 'comes with a later version of shoal';
