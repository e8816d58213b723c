/**
 * Where this machine's Chromium and Firefox are, and what Chromium is started with. Plain JavaScript, because the set-up runs it before
 * anything is built: one list of places, in the order in which they win, and one of switches, for the set-up, the headless
 * donors, `shoal doctor` and the tests with browsers.
 */
import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';

const NAMES = ['chromium', 'google-chrome', 'chromium-browser'];
const FIREFOX_NAMES = ['firefox-esr', 'firefox'];
const MAC_PATHS = [
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
];

const MAC_FIREFOX = '/Applications/Firefox.app/Contents/MacOS/firefox';

/** WebGPU on a machine without a GPU. */
export const WEBGPU_SWITCHES = ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'];
/** For any headless one: no traffic of the browser's own. */
export const HEADLESS_SWITCHES = [
  // Without these two a lost device takes WebGPU away from this address for minutes.
  '--disable-gpu-watchdog',
  '--disable-gpu-process-crash-limit',
  '--disable-domain-blocking-for-3d-apis',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
  '--disable-quic',
  ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
];

function isProgram(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function programOnPath(names) {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  return folders.flatMap((folder) => names.map((name) => join(folder, name))).find(isProgram);
}

async function playwrightsOwn() {
  try {
    const { chromium } = await import('playwright');
    const path = chromium.executablePath();
    return path && existsSync(path) ? path : null;
  } catch {
    return null; // playwright is not installed yet
  }
}

/** The program's path and where it was found, or null. `SHOAL_CHROMIUM` wins, and is not replaced where it is wrong. */
export async function findBrowser() {
  const named = process.env.SHOAL_CHROMIUM;
  if (named) return isProgram(named) ? { path: named, source: 'SHOAL_CHROMIUM' } : null;
  const onPath = programOnPath(NAMES);
  if (onPath) return { path: onPath, source: 'PATH' };
  const installed = MAC_PATHS.find(isProgram);
  if (installed) return { path: installed, source: 'installed application' };
  const own = await playwrightsOwn();
  return own ? { path: own, source: 'Playwright' } : null;
}

/** The one sentence where there is no browser: none on this machine, or none where `SHOAL_CHROMIUM` says. */
export function noBrowser() {
  const named = process.env.SHOAL_CHROMIUM;
  return named
    ? `SHOAL_CHROMIUM names no program (${named}): set it to the path of a Chromium or Google Chrome, or unset it.`
    : 'No Chromium was found: install chromium or Google Chrome, or set SHOAL_CHROMIUM to the path of one.';
}

/** As `findBrowser`, of Firefox: `SHOAL_FIREFOX` wins. */
export function findFirefox() {
  const named = process.env.SHOAL_FIREFOX;
  if (named) return isProgram(named) ? { path: named, source: 'SHOAL_FIREFOX' } : null;
  const onPath = programOnPath(FIREFOX_NAMES);
  if (onPath) return { path: onPath, source: 'PATH' };
  return isProgram(MAC_FIREFOX) ? { path: MAC_FIREFOX, source: 'installed application' } : null;
}

/** The one sentence where there is none. */
export function noFirefox() {
  const named = process.env.SHOAL_FIREFOX;
  return named
    ? `SHOAL_FIREFOX names no program (${named}): set it to the path of a Firefox, or unset it.`
    : `No Firefox was found: install it (${existsSync('/etc/debian_version') ? 'apt-get install firefox-esr' : 'https://www.mozilla.org/firefox'}), or set SHOAL_FIREFOX to the path of one.`;
}
