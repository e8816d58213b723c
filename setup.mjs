#!/usr/bin/env node
/**
 * `node setup.mjs COMMAND …`: everything a fresh clone needs, then the command. Plain JavaScript without dependencies,
 * since it runs before there are any. Each part of the set-up has a stamp of what it was made from, so that it does
 * nothing twice and says a word only when it works.
 */
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { testWordsProblem } from './signaling-server/commands/testWords.mjs';
import { aptGet } from './signaling-server/headless/aptGet.mjs';
import { backportsOf } from './signaling-server/headless/backports.mjs';
import { findBrowser, findFirefox, noBrowser } from './signaling-server/headless/findBrowser.mjs';

const ROOT = dirname(fileURLToPath(import.meta.url));
const MODULES = join(ROOT, 'node_modules');
const DIST = join(ROOT, 'dist');
const LOCK = join(ROOT, '.shoal', 'setup.lock');
const LOCK_POLL_MS = 250;
const SOURCE_FOLDERS = ['swarm', 'shaders', 'web', 'signaling-server'];
/** Commands that open tabs of their own. `serve` does only with `--donors`. */
const BROWSER_COMMANDS = ['demo', 'swarm', 'bench', 'test'];
const VULKAN_COMMANDS = ['test', 'bench'];
const APT = '/etc/apt';
const CHROMIUM_FOLDERS = ['/usr/lib/chromium', '/opt/google/chrome'];

const say = (text) => process.stderr.write(`set-up: ${text}\n`);

/** A failure with a sentence for the person who reads it; `code`: how the process ends. */
class SetupError extends Error {
  code = 1;
}

const wantsHelp = (words) => words.includes('--help') || words.includes('-h');

/** Runs a program with its output on our standard error, so that standard output stays the command's alone. */
function execute(program, programArguments, environment = {}) {
  const result = spawnSync(program, programArguments, {
    cwd: ROOT,
    stdio: ['ignore', 2, 2],
    env: { ...process.env, ...environment },
  });
  return result.status === 0;
}

const NPM = process.platform === 'win32' ? 'npm.cmd' : 'npm';
const isRootOnDebian = () => process.getuid?.() === 0 && existsSync('/etc/debian_version');
const digest = (text) => createHash('sha256').update(text).digest('hex');
const readStamp = (path) => (existsSync(path) ? readFileSync(path, 'utf8') : '');

/** Held while something is being made: a second set-up waits for the first and then finds everything done. */
async function withLock(work) {
  mkdirSync(dirname(LOCK), { recursive: true });
  for (let told = false; ; ) {
    try {
      writeFileSync(LOCK, String(process.pid), { flag: 'wx' });
      break;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    const owner = Number(readStamp(LOCK));
    if (owner > 0 && !isAlive(owner)) {
      rmSync(LOCK, { force: true });
      continue;
    }
    if (!told) say('another set-up is at work in this folder: waiting for it');
    told = true;
    await new Promise((resolve) => setTimeout(resolve, LOCK_POLL_MS));
  }
  try {
    return await work();
  } finally {
    rmSync(LOCK, { force: true });
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

const packageStamp = () => digest(readFileSync(join(ROOT, 'package-lock.json')));

function packagesAreCurrent() {
  const stampFile = join(MODULES, '.shoal-packages');
  if (readStamp(stampFile) === packageStamp()) return true;
  // Someone ran npm themselves: npm's own note of what it installed is then newer than the lock file.
  const npmsNote = join(MODULES, '.package-lock.json');
  if (existsSync(stampFile) || !existsSync(npmsNote)) return false;
  return statSync(npmsNote).mtimeMs >= statSync(join(ROOT, 'package-lock.json')).mtimeMs;
}

function installPackages() {
  if (packagesAreCurrent()) return;
  say('installing the npm packages (npm ci)');
  const installed = execute(NPM, ['ci', '--no-audit', '--no-fund', '--no-progress', '--loglevel=error'], {
    PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD: '1',
  });
  if (!installed) throw new SetupError('npm ci failed: its words are above; is the npm registry reachable?');
  writeFileSync(join(MODULES, '.shoal-packages'), packageStamp());
}

/** Every file that the pages and the command are built from, tests left out. */
function sourceFiles(folder) {
  return readdirSync(folder, { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return sourceFiles(path);
      return /\.(test|spec)\.ts$/.test(entry.name) ? [] : [path];
    });
}

function buildStamp() {
  const hash = createHash('sha256');
  const files = SOURCE_FOLDERS.flatMap((name) => sourceFiles(join(ROOT, name)));
  for (const path of [join(ROOT, 'package-lock.json'), ...files]) hash.update(path).update(readFileSync(path));
  return hash.digest('hex');
}

const buildIsCurrent = () => readStamp(join(DIST, 'stamp')) === buildStamp();

/** Into a folder of its own first: `dist` is whole at every moment, also when a build fails. */
function build() {
  if (buildIsCurrent()) return;
  say('building the pages and the command');
  const stamp = buildStamp();
  const fresh = mkdtempSync(join(ROOT, '.shoal', 'build-'));
  const vite = join(MODULES, 'vite', 'bin', 'vite.js');
  for (const [config, folder] of [
    ['web/vite.config.ts', 'web'],
    ['signaling-server/vite.config.ts', 'server'],
  ]) {
    const target = ['--outDir', join(fresh, folder), '--emptyOutDir', '--logLevel', 'warn'];
    if (!execute(process.execPath, [vite, 'build', '--config', config, ...target])) {
      rmSync(fresh, { recursive: true, force: true });
      throw new SetupError(`vite could not build ${folder}: its words are above`);
    }
  }
  writeFileSync(join(fresh, 'stamp'), stamp);
  const old = `${fresh}-old`;
  if (existsSync(DIST)) renameSync(DIST, old);
  renameSync(fresh, DIST);
  rmSync(old, { recursive: true, force: true });
}

/** True where every package is installed. The list of packages is fetched first. `suite`: of another than the release's own. */
async function installDebian(packages, suite) {
  say(`installing ${packages.join(' and ')} (apt-get)`);
  if (!(await aptGet(['update', '-qq'], say))) say('apt-get update failed; going on with the lists there are');
  const from = suite ? ['-t', suite] : [];
  return aptGet(['install', '-y', '-qq', '--no-install-recommends', ...from, ...packages], say);
}

async function provideBrowser() {
  if (await findBrowser()) return;
  if (process.env.SHOAL_CHROMIUM) throw new SetupError(noBrowser());
  if (isRootOnDebian()) {
    await installDebian(['chromium', 'libvulkan1']);
  } else {
    say('no Chromium was found: asking Playwright for its own; it may want the root password, for libraries');
    const playwright = join(MODULES, 'playwright', 'cli.js');
    execute(process.execPath, [playwright, 'install', '--with-deps', 'chromium']) ||
      execute(process.execPath, [playwright, 'install', 'chromium']);
  }
  if (!(await findBrowser())) throw new SetupError(noBrowser());
}

/** Dawn for Node needs the Vulkan loader. Where there is none its tests are skipped and say so: no reason to stop. */
async function provideVulkan() {
  const folders = ['/usr/lib', '/usr/lib64', '/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu'];
  if (process.platform !== 'linux' || folders.some((folder) => existsSync(join(folder, 'libvulkan.so.1')))) return;
  if (isRootOnDebian() && (await installDebian(['libvulkan1']))) return;
  const bundled = CHROMIUM_FOLDERS.find((folder) => existsSync(join(folder, 'libvulkan.so.1')));
  if (bundled) process.env.LD_LIBRARY_PATH = [bundled, process.env.LD_LIBRARY_PATH].filter(Boolean).join(':');
}

/** Programs that some tests need; where there is none they are skipped and say so. A package's own service never runs. */
const TEST_PROGRAMS = [
  { program: 'turnserver', asks: '--help', name: 'coturn' },
  { program: 'nats-server', asks: '--version', name: 'nats-server' },
  { program: 'caddy', asks: 'version', name: 'caddy', isOfLong: true },
];

async function provideTestPrograms(isLong) {
  const wanted = TEST_PROGRAMS.filter(({ isOfLong }) => isLong || !isOfLong);
  const missing = wanted.filter(({ program, asks }) => spawnSync(program, [asks]).error !== undefined);
  if (!isRootOnDebian() || missing.length === 0) return;
  process.env.SYSTEMD_OFFLINE = '1';
  const names = missing.map(({ name }) => name);
  if (await installDebian(names))
    for (const name of names) spawnSync('systemctl', ['disable', name], { stdio: 'ignore' });
  delete process.env.SYSTEMD_OFFLINE;
}

/**
 * For the tests of donors in Firefox, and on a machine without a GPU a driver that it takes. Only where `.ci/run` asks for it:
 * nobody else's machine gets a second browser, or packages of another release. Where there is none they are skipped.
 */
async function provideFirefox() {
  if (process.env.SHOAL_CI !== '1' || !isRootOnDebian()) return;
  if (!findFirefox()) await installDebian(['firefox-esr', 'libvulkan1']);
  const backports = backportsOf(readFileSync('/etc/os-release', 'utf8'), aptLists());
  const { stdout } = spawnSync('dpkg-query', ['-s', 'mesa-vulkan-drivers'], { encoding: 'utf8' });
  const isInstalled = /^Status: install ok installed$/m.test(stdout ?? '');
  if (isInstalled && (backports === null || /^Version: .*~bpo/m.test(stdout))) return;
  if (backports?.text) writeFileSync(join(APT, 'sources.list.d', 'shoal-backports.sources'), backports.text);
  await installDebian(['mesa-vulkan-drivers'], backports?.suite);
}

function aptLists() {
  const folder = join(APT, 'sources.list.d');
  const parts = existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : [];
  return [join(APT, 'sources.list'), ...parts].filter(existsSync).map((path) => readFileSync(path, 'utf8'));
}

async function setUp(command, rest) {
  // Said by this file alone: nothing is needed for it.
  if (command === 'test' && wantsHelp(rest)) return;
  if (!packagesAreCurrent()) await withLock(installPackages);
  const asksForHelp = wantsHelp(rest);
  // Before anything is built for it.
  const wrong = command === 'test' ? await testWordsProblem(rest, Object.keys(LANES)) : null;
  if (wrong !== null) throw Object.assign(new SetupError(wrong), { code: 2 });
  if (!buildIsCurrent()) await withLock(build);
  const opensTabs =
    BROWSER_COMMANDS.includes(command) || (command === 'serve' && rest.some((word) => word.startsWith('--donors')));
  if (opensTabs && !asksForHelp) await withLock(provideBrowser);
  if (VULKAN_COMMANDS.includes(command) && !asksForHelp) await provideVulkan();
  if (command === 'test') await withLock(() => provideTestPrograms(rest.includes('--long')));
  if (command === 'test') await withLock(provideFirefox);
}

/** The lanes of `npm test`. Types and lint count as one test each. */
const LANES = {
  types: [join('typescript', 'bin', 'tsc'), '--noEmit'],
  lint: [join('@biomejs', 'biome', 'bin', 'biome'), 'check', '.'],
  swarm: 'vitest',
  unit: 'vitest',
  gpu: 'vitest',
  dashboard: 'vitest',
  e2e: 'vitest',
  servers: 'vitest',
};

/** Minutes of one page, and by two servers what `e2e` has by one: with `--long`, or where it is asked for by name. */
const LONG_LANES = ['dashboard', 'servers'];

/** Two rows side by side, each in order: who walks through pages leaves half of two cores idle, and a swarm a fifth. */
const ROWS = [
  ['e2e', 'servers'],
  ['types', 'lint', 'swarm', 'unit', 'gpu', 'dashboard'],
];

/** A lane of the first row prints as it goes, another one when it is done. */
function runProgram(programArguments, lane, prints) {
  return new Promise((resolve) => {
    const title = `\n== ${lane}\n`;
    if (prints) process.stdout.write(title);
    const stdio = ['inherit', prints ? 'inherit' : 'pipe', prints ? 'inherit' : 'pipe'];
    const child = spawn(process.execPath, programArguments, { cwd: ROOT, stdio });
    const held = [];
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (data) => held.push(data));
    child.on('close', (code) => {
      if (!prints) process.stdout.write(Buffer.concat([Buffer.from(title), ...held]));
      resolve({ code: code ?? 1, printed: Buffer.concat(held).toString() });
    });
  });
}

/** The beginning of what a failed test says: enough to know it again. */
function excerptOf(text) {
  const lines = text.split('\n').filter((line) => !line.includes('node_modules'));
  return lines.slice(0, 12).join('\n');
}

/** What the report leaves out: an error that no test awaited. */
function strayErrorsOf(printed) {
  const at = printed.indexOf('Unhandled Errors');
  return at < 0 ? 'ended with an error; its own output says which' : excerptOf(printed.slice(at));
}

async function runVitest(lane, prints, folder) {
  const report = join(folder, `${lane}.json`);
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  const vitest = join(MODULES, 'vitest', 'vitest.mjs');
  const words = [vitest, 'run', '--project', lane, '--passWithNoTests', ...reporters];
  const { code, printed } = await runProgram(words, lane, prints);
  if (!existsSync(report)) return { passed: 0, failures: [`${lane}: ended without a report`], skipped: 0 };
  const result = JSON.parse(readFileSync(report, 'utf8'));
  const failures = result.testResults.flatMap((file) => {
    const name = `${lane}: ${relative(ROOT, file.name)}`;
    // A file that does not even load has no tests to count.
    if (file.status === 'failed' && file.assertionResults.length === 0) return [`${name}\n${excerptOf(file.message)}`];
    const failed = file.assertionResults.filter(({ status }) => status === 'failed');
    return failed.map((one) => `${name}: ${one.fullName}\n${excerptOf(one.failureMessages.join('\n'))}`);
  });
  if (failures.length === 0 && code !== 0) failures.push(`${lane}: ${strayErrorsOf(printed)}`);
  return { passed: result.numPassedTests, failures, skipped: result.numPendingTests + result.numTodoTests };
}

async function runLane(lane, prints, folder) {
  const what = LANES[lane];
  if (what === 'vitest') return runVitest(lane, prints, folder);
  const [program, ...rest] = what;
  const { code } = await runProgram([join(MODULES, program), ...rest], lane, prints);
  return { passed: code === 0 ? 1 : 0, failures: code === 0 ? [] : [lane], skipped: 0 };
}

/** `--long`: tests that have more cases than a change needs take them all. */
async function test(words) {
  if (wantsHelp(words)) {
    const lanes = Object.keys(LANES).map((lane) => `[${lane}]`);
    process.stdout.write(`Usage: npm test -- ${lanes.join(' ')} [--long]\n\n`);
    process.stdout.write('Runs these lanes, or all of them. --long: tests with many cases take every one.\n');
    return 0;
  }
  const chosen = words.filter((word) => word !== '--long');
  if (words.includes('--long')) process.env.SHOAL_LONG = '1';
  const total = { passed: 0, failures: [], skipped: 0 };
  const folder = mkdtempSync(join(tmpdir(), 'shoal-test-'));
  const isDue = (lane) =>
    chosen.length === 0 ? words.includes('--long') || !LONG_LANES.includes(lane) : chosen.includes(lane);
  const runRow = async (row, prints) => {
    for (const lane of row.filter(isDue)) {
      const counted = await runLane(lane, prints, folder);
      total.passed += counted.passed;
      total.skipped += counted.skipped;
      total.failures.push(...counted.failures);
    }
  };
  const [first, ...others] = ROWS.filter((row) => row.some(isDue));
  await Promise.all([runRow(first, true), ...others.map((row) => runRow(row, false))]);
  rmSync(folder, { recursive: true, force: true });
  // Once more at the end: what failed may stand thousands of lines above.
  if (total.failures.length > 0) process.stdout.write(`\n== failed\n\n${total.failures.join('\n\n')}\n`);
  const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : '';
  process.stdout.write(`\n${total.passed} passed, ${total.failures.length} failed${skipped}\n`);
  return total.failures.length > 0 ? 1 : 0;
}

const [, , command = '--help', ...rest] = process.argv;
const parent = process.ppid;
try {
  await setUp(command, rest);
  // npm was told to end meanwhile, and tells its shell alone (signaling-server/headless/interrupt.ts).
  if (process.env.npm_lifecycle_script?.startsWith('node setup.mjs') && process.ppid !== parent) process.exit(1);
  if (command === 'test') process.exit(await test(rest));
  // In this very process: signals, standard streams and the exit code are the command's own.
  if (process.argv.length < 3) process.argv.push(command);
  await import(pathToFileURL(join(DIST, 'server', 'cli.js')).href);
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exit(error.code);
}
