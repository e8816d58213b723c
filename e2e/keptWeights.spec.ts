/** What was trained is never lost to the place that it was to be exported to. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { atTestEnd, goldenFile, RunningCommand, shoal, temporaryFolder } from './product.ts';

test.each([
  ['one server', []],
  ['two servers', ['--servers', '2']],
] as const)(
  '[OP69] where an export fails at the end, a data directory stays, and the command that is named exports: %s',
  async (_, servers) => {
    const out = join(temporaryFolder(), 'a folder');
    const swarm = new RunningCommand([
      'swarm',
      goldenFile('gpt2-tiny/run.json'),
      '--donors',
      '1',
      '--export',
      out,
      ...servers,
    ]);
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
  '[OP69] a disk without room for the weights is refused before training (needs root)',
  async ({ skip }) => {
    const disk = temporaryFolder();
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', disk], { stdio: 'ignore' });
    } catch {
      skip('this machine lets nobody mount a disk');
    }
    atTestEnd(() => execFileSync('umount', [disk]));
    const out = join(disk, 'export');
    const { code, stderr } = await shoal('swarm', goldenFile('gpt2-tiny/run.json'), '--donors', '1', '--export', out);
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/^--export: .*export needs .*, but its disk has .* free\n$/),
    ]);
  },
);
