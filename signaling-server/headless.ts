/**
 * Donors without a person: each is a headless browser of its own that opens the donor page and presses the same button.
 * They use nothing that a person's tab would not have; what they cost ends with this process, however that ends.
 */
import { type Browser, type BrowserServer, chromium, type Page } from 'playwright';
import { assertNever, type Result, refusal, success } from '../swarm/base.ts';
import { findBrowser, NO_BROWSER } from './findBrowser.mjs';
import type { Log } from './run.ts';

/** Time from the browser's start to its admission. Cold starts of several at once take some seconds each. */
const ADMISSION_LIMIT_MS = 120_000;

/** WebGPU on a machine without a GPU, and no traffic of the browser's own. */
const BROWSER_SWITCHES = [
  '--enable-unsafe-webgpu',
  '--use-webgpu-adapter=swiftshader',
  // Without these two a lost device takes WebGPU away from this address for minutes.
  '--disable-gpu-watchdog',
  '--disable-gpu-process-crash-limit',
  '--disable-domain-blocking-for-3d-apis',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
  '--disable-quic',
];

export interface HeadlessDonor {
  readonly page: Page;
  readonly browser: Browser;
  readonly browserPid: number;
  /** Resolves when this donor computes no more: browser gone, tab crashed, or the page gave up; with the reason. */
  readonly ended: Promise<string>;
  close(): Promise<void>;
}

/** States of the donor page, `data-state` of its body. */
type PageState = 'idle' | 'starting' | 'joined' | 'computing' | 'spare' | 'paused' | 'left' | 'failed' | 'reconnecting';

const runsAsRoot = (): boolean => process.getuid?.() === 0;

/** A headless browser with WebGPU, as the donors use it; also for `shoal doctor`. */
export async function launchBrowser(): Promise<Result<{ readonly server: BrowserServer; readonly browser: Browser }>> {
  const found = await findBrowser();
  if (found === null) return refusal(NO_BROWSER);
  try {
    const server = await chromium.launchServer({
      executablePath: found.path,
      headless: true,
      args: [...BROWSER_SWITCHES, ...(runsAsRoot() ? ['--no-sandbox'] : [])],
      handleSIGINT: false,
      handleSIGTERM: false,
      handleSIGHUP: false,
    });
    return success({ server, browser: await chromium.connect(server.wsEndpoint()) });
  } catch (error) {
    return refusal(`${found.path} does not start: ${error instanceof Error ? error.message.split('\n')[0] : error}`);
  }
}

/** Opens the donor page of a server and presses its button; resolves when the server has admitted it. */
export async function openHeadlessDonor(url: string, number: number, log: Log): Promise<Result<HeadlessDonor>> {
  const launched = await launchBrowser();
  if (!launched.ok) return launched;
  const { server, browser } = launched.value;
  const context = await browser.newContext();
  const page = await context.newPage();
  page.on('console', (message) => log('debug', `donor ${number}: ${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => log('warn', `donor ${number}: ${error.message}`));
  const ended = new Promise<string>((resolve) => {
    browser.on('disconnected', () => resolve('its browser ended'));
    page.on('crash', () => resolve('its tab crashed'));
    page.on('close', () => resolve('its tab was closed'));
  });
  const close = async (): Promise<void> => {
    await browser.close().catch(() => {}); // it may be gone already
    await server.close().catch(() => server.kill());
  };
  const admitted = await Promise.race([admission(page, url), ended.then(refusal)]);
  if (!admitted.ok) {
    await close();
    return refusal(`donor ${number} was not admitted: ${admitted.reason}`);
  }
  log('debug', `donor ${number} is admitted: browser ${server.process().pid}`);
  const gaveUp = failure(page);
  return success({
    page,
    browser,
    browserPid: server.process().pid ?? 0,
    ended: Promise.race([ended, gaveUp]),
    close,
  });
}

async function admission(page: Page, url: string): Promise<Result<null>> {
  try {
    await page.goto(url, { timeout: ADMISSION_LIMIT_MS });
    await page.getByRole('button', { name: 'Donate this GPU', exact: true }).click({ timeout: ADMISSION_LIMIT_MS });
    await page.waitForFunction(
      () => !['idle', 'starting', undefined].includes(document.body.dataset.state),
      undefined,
      {
        timeout: ADMISSION_LIMIT_MS,
      },
    );
    const { state, reason } = await page.evaluate(() => ({ ...document.body.dataset }));
    return verdict((state ?? 'idle') as PageState, reason ?? 'it gave no reason');
  } catch (error) {
    return refusal(error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error));
  }
}

function verdict(state: PageState, reason: string): Result<null> {
  switch (state) {
    case 'joined':
    case 'computing':
    case 'spare':
    case 'paused':
      return success(null);
    case 'failed':
    case 'left':
    case 'reconnecting':
    case 'idle':
    case 'starting':
      return refusal(`its page says ${state}: ${reason}`);
    default:
      return assertNever(state);
  }
}

/** Resolves when the page itself says that it cannot go on. Never, where the page goes away first. */
function failure(page: Page): Promise<string> {
  return page
    .waitForFunction(() => document.body.dataset.state === 'failed', undefined, { timeout: 0 })
    .then(() => page.evaluate(() => document.body.dataset.reason ?? ''))
    .then((reason) => `its page gave up: ${reason}`)
    .catch(() => new Promise<string>(() => {}));
}

/** Opens `count` donors, strictly one after the other, so that none starts while another one is admitted. */
export async function openHeadlessDonors(
  url: string,
  count: number,
  log: Log,
  onOpened: (opened: number) => void = () => {},
): Promise<Result<HeadlessDonor[]>> {
  const donors: HeadlessDonor[] = [];
  for (let number = 0; number < count; number++) {
    const donor = await openHeadlessDonor(url, number, log);
    if (!donor.ok) {
      await closeAll(donors);
      return donor;
    }
    donors.push(donor.value);
    onOpened(donors.length);
  }
  return success(donors);
}

export async function closeAll(donors: readonly HeadlessDonor[]): Promise<void> {
  await Promise.all(donors.map((donor) => donor.close()));
}
