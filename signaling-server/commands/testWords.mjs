/**
 * What is wrong with the words of `npm test`, guessed as the commands guess: by the same library. It is there once the
 * packages are, and nothing needs to be built.
 */

/** Null: nothing is wrong. */
export async function testWordsProblem(words, lanes) {
  const unknown = words.find((word) => word !== '--long' && !lanes.includes(word));
  if (unknown === undefined) return null;
  const kind = unknown.startsWith('-') ? 'option' : 'lane';
  const guess = await guessOf(unknown, lanes);
  return `test: unknown ${kind} "${unknown}", expected ${lanes.join(', ')} or --long${guess}`;
}

/** ` (Did you mean unit?)`; empty: nothing is near it. */
async function guessOf(word, lanes) {
  const { Command } = await import('commander');
  const command = new Command().option('--long').helpOption(false).helpCommand(false).exitOverride();
  command.configureOutput({ outputError: () => undefined });
  for (const lane of lanes) command.command(lane);
  try {
    command.parse([word], { from: 'user' });
  } catch (error) {
    return error.message.match(/\(Did .*\)/)?.[0].replace(/^/, ' ') ?? '';
  }
  return '';
}
