/** What a person gets wrong, through the real command: one sentence on standard error, and the right exit code. */
import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { atTestEnd, beside, copyOfRun, type Json, shoal, startServer, temporaryFolder } from './product.ts';

/** One sentence on one line, nothing on standard output; each of `words` is in it. */
async function expectRefusal(ended: ReturnType<typeof shoal>, code: number, ...words: string[]): Promise<void> {
  const { stdout, stderr, ...rest } = await ended;
  expect({ ...rest, stdout, lines: stderr.trimEnd().split('\n').length }, stderr).toEqual({
    code,
    stdout: '',
    lines: 1,
  });
  for (const word of words) expect(stderr).toContain(word);
}

const withTrain = (change: Json) => (run: Json) => ({ ...run, train: { ...(run.train as Json), ...change } });

test('a field, an option, a command and a folder that are wrong', async () => {
  const bad = copyOfRun('gpt2-tiny', withTrain({ step: 3 }));
  const good = copyOfRun('gpt2-tiny');
  const swarm = (runFile: string, ...options: string[]) => shoal('swarm', runFile, '--donors', '1', ...options);
  await Promise.all([
    expectRefusal(swarm(bad), 2, bad, 'train.step', 'is unknown'),
    expectRefusal(swarm(good, '--fast'), 2, '--fast'),
    expectRefusal(shoal('swim'), 2, 'swim'),
    expectRefusal(swarm(good, '--export', beside(good, '')), 2, beside(good, '')),
  ]);
});

test('a port that is taken, a data directory that is in use, a name that it knows with another content', async () => {
  const neighbour = createServer().listen(0, 'localhost');
  atTestEnd(() => neighbour.close());
  await new Promise((resolve) => neighbour.once('listening', resolve));
  const address = neighbour.address();
  const port = String(typeof address === 'object' ? address?.port : '');
  const runFile = copyOfRun('gpt2-tiny');
  const dataDirectory = temporaryFolder();
  const data = ['--data-dir', dataDirectory];
  await expectRefusal(shoal('serve', runFile, ...data, '--port', port), 1, port, '--port');
  const server = await startServer(runFile, { dataDirectory });
  const other = copyOfRun('gpt2-tiny', withTrain({ steps: 19 }));
  const swarm = ['swarm', other, '--donors', '1', ...data];
  await expectRefusal(shoal(...swarm), 1, dataDirectory, 'in use');
  await server.stop();
  await expectRefusal(shoal(...swarm), 2, other, '"gpt2-tiny"', dataDirectory);
});
