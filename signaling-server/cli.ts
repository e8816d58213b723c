/** The program `shoal`: its command line, run to its end. */
import { runCommand } from './commands/program.ts';

// Browsers and Dawn leave handles behind that would keep this process alive.
process.exit(await runCommand(process.argv.slice(2)));
