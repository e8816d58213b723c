/**
 * The real command as a person or a service manager meets it: what is wrong is refused in one sentence, what was trained is never
 * lost to the place that it was to be exported to, and nothing outlives the npm that runs it.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import {
  atTestEnd,
  beside,
  copyOfRun,
  goldenFile,
  IS_LONG,
  type Json,
  RunningCommand,
  runSwarm,
  shoal,
  startServer,
  temporaryFolder,
} from './product.ts';

const TINY = goldenFile('gpt2-tiny/run.json');

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

test.each([['one server', []], ...(IS_LONG ? ([['two servers', ['--servers', '2']]] as const) : [])] as const)(
  'where an export fails at the end, a data directory stays, and the command that is named exports: %s',
  async (_, servers) => {
    const out = join(temporaryFolder(), 'a folder');
    const swarm = new RunningCommand(['swarm', TINY, '--donors', '1', '--export', out, ...servers]);
    await swarm.printed(/(\d+) of 20 steps/, 'stderr');
    mkdirSync(out);
    writeFileSync(join(out, 'in the way'), '');
    const { code, stderr } = await swarm.ended;
    const [, dataDirectory = '', words = ''] =
      /is not empty: .*; the weights are kept: shoal export --data-dir (\S+) --run (.*)\n/.exec(stderr) ?? [];
    expect([code, words], stderr).toEqual([1, `gpt2-tiny --out '${out}'`]);
    atTestEnd(() => rmSync(dataDirectory, { recursive: true, force: true }));
    rmSync(join(out, 'in the way'));
    const later = await shoal('export', '--data-dir', dataDirectory, '--run', 'gpt2-tiny', '--out', out);
    expect(later.code, later.stderr).toBe(0);
    expect(existsSync(join(out, 'model.safetensors'))).toBe(true);
  },
);

const mayMount = process.platform === 'linux' && process.getuid?.() === 0;

test.skipIf(!mayMount)(
  'a disk without room for the weights is refused before training (needs root)',
  async ({ skip }) => {
    const disk = temporaryFolder();
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', disk], { stdio: 'ignore' });
    } catch {
      skip('this machine lets nobody mount a disk');
    }
    atTestEnd(() => execFileSync('umount', [disk]));
    const out = join(disk, 'export');
    const { code, stderr } = await shoal('swarm', TINY, '--donors', '1', '--export', out);
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/^--export: .*export needs .*, but its disk has .* free\n$/),
    ]);
  },
);

/** Everything that it starts has `folder` for its temporary files, so that it is known by it. */
const npmRun = (folder: string, ...words: string[]): ChildProcess =>
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
async function endsWithNpm(child: ChildProcess, folder: string): Promise<void> {
  const closed = once(child, 'close');
  child.kill('SIGTERM');
  await closed;
  expect(processesOf(folder)).toEqual([]);
}

test.skipIf(process.platform !== 'linux')('a server ends with the npm that runs it', async () => {
  const folder = temporaryFolder();
  const child = npmRun(folder, 'serve', '--port', '0', '--data-dir', join(folder, 'data'));
  await said(child, /operator token/);
  await endsWithNpm(child, folder);
});

test.skipIf(process.platform !== 'linux')(
  'a swarm ends with the npm that runs it, and so do its browsers',
  async () => {
    const folder = temporaryFolder();
    const child = npmRun(folder, 'swarm', TINY, '--donors', '2', '--data-dir', join(folder, 'data'));
    await said(child, / of 20 steps/);
    await endsWithNpm(child, folder);
  },
);

/** Every kernel in the browser that donors use, beside its CPU reference. */
test.runIf(IS_LONG)('bench kernels: every kernel is right in headless Chromium', async () => {
  const { code, stdout, stderr } = await shoal('bench', 'kernels', '--json');
  expect(code, stderr).toBe(0);
  const { kernels } = JSON.parse(stdout) as { kernels: Json[] };
  expect(kernels.length).toBeGreaterThan(10);
  expect(kernels.filter(({ right }) => right !== true)).toEqual([]);
});

test('a swarm ends with the first held-out loss that is low enough, and says so in one document', async () => {
  const evaluation = { files: ['corpus.txt'], everySteps: 2 };
  const run = copyOfRun('gpt2-tiny', (file) => ({ ...file, evaluation }));
  const { code, stdout, stderr } = await shoal('swarm', run, '--donors', '1', '--until-loss', '5', '--json');
  expect(code, stderr).toBe(0);
  const { outcome, steps, losses, evaluations } = JSON.parse(stdout);
  expect([outcome, losses.length]).toEqual(['lossReached', steps]);
  const found = evaluations.map(({ loss }: { loss: number }) => loss <= 5);
  expect(found).toEqual(found.map((_: boolean, place: number) => place === found.length - 1));
  expect(steps).toBeLessThan(20);
});

test('[CO101] a run with a budget ends with its time, though a donor dies', async () => {
  const SECONDS = 8;
  const run = copyOfRun('gpt2-tiny', ({ train, ...file }) => {
    const { steps: _, ...rest } = train as Json;
    const timed = { budget: { seconds: SECONDS }, schedule: { type: 'constant', warmup: 0.5 } };
    return { ...file, checkpoint: { everySteps: 1 }, train: { ...rest, ...timed } };
  });
  const { metrics } = await runSwarm(run, '--donors', '2', '--chaos', 'kill:1@1');
  expect(metrics.map(({ step }) => step)).toEqual(metrics.map((_, place) => place));
  const shares = metrics.map(({ share = Number.NaN }) => share);
  expect(shares).toEqual(shares.toSorted((a, b) => a - b));
  const [last, used] = [metrics.at(-1), shares.at(-1) ?? 0];
  expect(used).toBeLessThan(1);
  expect(used * SECONDS + (last?.seconds ?? 0)).toBeGreaterThanOrEqual(SECONDS);
  for (const { learningRate, share = 0 } of metrics)
    expect(learningRate).toBeCloseTo(3e-3 * Math.min(1, Math.max(share, 1e-3) / 0.5), 12);
});
