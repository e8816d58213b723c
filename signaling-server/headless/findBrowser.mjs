/**
 * Where this machine's Chromium is, and what it is started with. Plain JavaScript, because the set-up runs it before
 * anything is built: one list of places, in the order in which they win, and one of switches, for the set-up, the headless
 * donors, `shoal doctor` and the tests with browsers.
 */
import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';

const NAMES = ['chromium', 'google-chrome', 'chromium-browser'];
const MAC_PATHS = [
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
];

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
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    for (const name of NAMES) {
      const path = join(folder, name);
      if (folder && isProgram(path)) return { path, source: 'PATH' };
    }
  }
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
