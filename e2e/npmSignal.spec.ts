/** What a container or systemd does to a program that was started by npm: SIGTERM to npm alone. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { goldenFile } from './product.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-npm-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Everything that it starts has this folder for its temporary files, so that it is known by it. */
const npmRun = (...words: string[]): ChildProcess =>
  spawn('npm', ['run', '-s', 'shoal', '--', ...words], {
    cwd: join(import.meta.dirname, '..'),
    env: { ...process.env, TMPDIR: folder },
    stdio: ['ignore', 'pipe', 'pipe'],
  });

async function said(child: ChildProcess, words: RegExp): Promise<void> {
  let text = '';
  await new Promise<void>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (data) => {
        text += String(data);
        if (words.test(text)) resolve();
      });
    child.on('close', () => reject(new Error(`it ended before: ${text}`)));
  });
}

function processesOf(path: string): string[] {
  return readdirSync('/proc').flatMap((pid) => {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      return /^\d+$/.test(pid) && command.includes(path) ? [command.replaceAll('\0', ' ')] : [];
    } catch {
      return []; // it ended meanwhile
    }
  });
}

/** Pipes close when the last process that has them ends, whoever its parent is by then. */
async function endsWithNpm(child: ChildProcess): Promise<void> {
  const closed = once(child, 'close');
  child.kill('SIGTERM');
  await closed;
  expect(processesOf(folder)).toEqual([]);
}

test.skipIf(process.platform !== 'linux')('[OP68] a server ends with the npm that runs it', async () => {
  const child = npmRun('serve', '--port', '0', '--data-dir', join(folder, 'data'));
  await said(child, /operator token/);
  await endsWithNpm(child);
});

test.skipIf(process.platform !== 'linux')(
  '[OP68] a swarm ends with the npm that runs it, and so do its browsers',
  async () => {
    const child = npmRun(
      'swarm',
      goldenFile('gpt2-tiny/run.json'),
      '--donors',
      '2',
      '--data-dir',
      join(folder, 'data'),
    );
    await said(child, / of 20 steps/);
    await endsWithNpm(child);
  },
);
