/** The program `shoal`: its command line, run to its end. */
import { threadsEnded } from '../files/threads.ts';
import { exitCodeOf, runCommand } from './program.ts';

// What cannot be kept (a full disk under the store) ends the process at once: the store is whole as it was committed.
process.on('uncaughtException', (error) => process.exit(exitCodeOf(error)));

// Browsers and Dawn leave handles behind that would keep this process alive.
const exitCode = await runCommand(process.argv.slice(2));
await threadsEnded();
// A long document to a pipe is still on its way: leaving now would cut it off.
process.stdout.write('', () => process.exit(exitCode));
