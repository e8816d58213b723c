/** `shoal doctor`: what this machine can do, and how to mend what it cannot. */
import { spawnSync } from 'node:child_process';
import { constants, existsSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { makeFolder } from '../files/makeFolder.ts';
import { PAGES_FOLDER, SOURCES_FOLDER, WORK_FOLDER } from '../files/projectRoot.ts';
import { launchBrowser } from '../headless/chromium.ts';
import { findBrowser, findFirefox, noBrowser, noFirefox } from '../headless/findBrowser.mjs';
import { findingsOf, findingsText } from '../operator/modelFindings.ts';
import { badInput, need } from './failure.ts';

import { tryIt } from './options.ts';

interface Check {
  readonly name: string;
  readonly ok: boolean;
  readonly finding: string;
  /** What to do, where it is not ok. */
  readonly fix: string | null;
  /** Nothing but tests and benchmarks needs it. */
  readonly optional?: boolean;
}

const NODE_NEEDED = [20, 19] as const;
const VULKAN_FOLDERS = ['/usr/lib', '/usr/lib64', '/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu'];

export function addDoctorCommand(program: Command): void {
  program
    .command('doctor')
    .description('check what this machine can do, and how to fix what is missing')
    .option('--model <folder>', 'check instead whether a model as the Hub has it can be trained, and by whom')
    .option('--json', 'one JSON document')
    .addHelpText('after', tryIt('doctor'))
    .action(doctor);
}

interface DoctorOptions {
  readonly json?: boolean;
  readonly model?: string;
}

async function doctor({ json, model }: DoctorOptions): Promise<void> {
  if (model !== undefined) {
    const found = need(await findingsOf(model), badInput);
    process.stdout.write(json ? `${JSON.stringify(found)}\n` : findingsText(found));
    process.exitCode = found.ok ? 0 : 1;
    return;
  }
  const checks = [node(), pages(), await workFolder(), tokenizers(), ...(await browser()), firefox(), vulkan()];
  const isWell = checks.every(({ ok, optional }) => ok || optional);
  if (json) {
    process.stdout.write(`${JSON.stringify({ ok: isWell, checks })}\n`);
  } else {
    for (const { name, ok, finding, fix, optional } of checks) {
      const mark = ok ? 'ok     ' : optional ? 'without' : 'missing';
      process.stdout.write(`${mark}  ${name}: ${finding}\n`);
      if (fix !== null) process.stdout.write(`         fix: ${fix}\n`);
    }
    process.stdout.write(`\n${verdict(checks)}\n`);
  }
  process.exitCode = isWell ? 0 : 1;
}

function verdict(checks: readonly Check[]): string {
  const lacking = checks.filter(({ ok, optional }) => !ok && !optional).map(({ name }) => name);
  if (lacking.length > 0)
    return `Not ready yet: ${lacking.join(', ')}. Do what each "fix" says, then run doctor again.`;
  return 'This machine is ready. Try npm run demo: a swarm of tabs trains a small model here.';
}

const well = (name: string, finding: string): Check => ({ name, ok: true, finding, fix: null });
const missing = (name: string, finding: string, fix: string): Check => ({ name, ok: false, finding, fix });

function node(): Check {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const isEnough = major > NODE_NEEDED[0] || (major === NODE_NEEDED[0] && minor >= NODE_NEEDED[1]);
  const finding = `${process.versions.node} on ${process.platform} ${process.arch}`;
  return isEnough ? well('Node', finding) : missing('Node', finding, `install Node ${NODE_NEEDED.join('.')} or newer`);
}

function pages(): Check {
  const name = 'built pages';
  return existsSync(join(PAGES_FOLDER, 'index.html'))
    ? well(name, PAGES_FOLDER)
    : missing(name, 'not built', 'run this command through npm run shoal -- doctor, which builds them');
}

async function workFolder(): Promise<Check> {
  const name = 'work folder';
  try {
    makeFolder(WORK_FOLDER);
    await access(WORK_FOLDER, constants.W_OK);
    return well(name, WORK_FOLDER);
  } catch {
    return missing(name, `${WORK_FOLDER} cannot be written`, 'give yourself write access to the checkout');
  }
}

async function browser(): Promise<Check[]> {
  const found = await findBrowser();
  if (found === null) return [missing('browser', 'none', noBrowser())];
  const launched = await launchBrowser();
  if (!launched.ok) return [missing('browser', launched.reason, 'start it by hand and read what it says')];
  const { browser: started, server } = launched.value;
  try {
    const page = await started.newPage();
    await page.goto('data:text/html,<title>doctor</title>');
    const version = `${found.path} ${started.version()} (from ${found.source})`;
    return [well('browser', version), await webGpu(started)];
  } finally {
    await started.close();
    await server.close();
  }
}

/** In a page of a secure address: a browser offers WebGPU nowhere else. */
async function webGpu(started: Awaited<ReturnType<typeof import('playwright').chromium.launch>>): Promise<Check> {
  const name = 'WebGPU';
  const page = await started.newPage();
  await page.route('**/*', (route) => route.fulfill({ contentType: 'text/html', body: '<title>doctor</title>' }));
  await page.goto('http://localhost/');
  const adapter = await page.evaluate(async () => {
    const found = await navigator.gpu?.requestAdapter();
    if (!found) return null;
    const { vendor, architecture } = found.info;
    const halves = found.features.has('shader-f16') ? 'with' : 'without';
    return `${vendor} ${architecture}, ${halves} shader-f16`;
  });
  return adapter === null
    ? missing(name, 'the headless browser has no adapter', 'use a newer Chromium: the headless donors need WebGPU')
    : well(
        name,
        adapter.endsWith('without shader-f16') ? `${adapter}: computes in f32 where a run asks for f16` : adapter,
      );
}

/** In a process of its own, as runs use it: it is native code. */
function tokenizers(): Check {
  const name = 'tokenizers';
  const words = ['-e', 'require("tokenizers")'];
  if (spawnSync(process.execPath, words, { cwd: SOURCES_FOLDER, stdio: 'ignore' }).status === 0)
    return well(name, 'Hugging Face’s library loads');
  const what = 'none: a run may not name a tokenizer.json; runs on bytes go on working';
  return {
    ...missing(name, what, 'run npm ci on a system that the package tokenizers has a build for'),
    optional: true,
  };
}

/** Beside Chromium, for donors of another browser. */
function firefox(): Check {
  const name = 'Firefox';
  const found = findFirefox();
  if (found !== null) return well(name, `${found.path} (from ${found.source})`);
  return { ...missing(name, 'none: no donor can be opened with --browser firefox', noFirefox()), optional: true };
}

/** Dawn for Node: kernel tests and benchmarks without a browser. */
function vulkan(): Check {
  const name = 'Vulkan loader';
  if (process.platform !== 'linux') return well(name, 'not needed here');
  const folder = VULKAN_FOLDERS.find((path) => existsSync(join(path, 'libvulkan.so.1')));
  if (folder !== undefined) return well(name, join(folder, 'libvulkan.so.1'));
  return { ...missing(name, 'none: kernel tests on Dawn are skipped', 'apt-get install libvulkan1'), optional: true };
}
