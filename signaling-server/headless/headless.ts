/**
 * Donors without a person: each is a headless browser of its own that opens the donor page and presses the same button.
 * They use nothing that a person's tab would not have; what they cost ends with this process, however that ends.
 */
import { type Browser, type BrowserServer, chromium, type Page } from 'playwright';
import { assertNever, type Result, refusal, success } from '../../swarm/base.ts';
import { LEAST_SPEED, type Limits, limitsFragment, NO_LIMITS } from '../../swarm/limits.ts';
import type { RehearsedDonor } from '../faults/rehearsal.ts';
import type { Log } from '../monitoring/log.ts';
import { donorProcesses, goOn, stopFor } from './donorProcesses.ts';
import { findBrowser, HEADLESS_SWITCHES, noBrowser, WEBGPU_SWITCHES } from './findBrowser.mjs';
import { sendNaN } from './nanSender.ts';

/** Time from the browser's start to its admission. Cold starts of several at once take some seconds each. */
const ADMISSION_LIMIT_MS = 120_000;
/** How often a page is asked for its state: one that is asked at each frame draws them all, and four tabs share two cores. */
const POLL_MS = 100;

export interface HeadlessDonor extends RehearsedDonor {
  readonly page: Page;
  readonly browser: Browser;
  readonly browserPid: number;
  /** Resolves when this donor computes no more: browser gone, tab crashed, or the page gave up; with the reason. */
  readonly ended: Promise<string>;
  /** Resolves with true when it is in a plan, with false when it never will be. */
  computes(): Promise<boolean>;
  close(): Promise<void>;
}

/** States of the donor page, `data-state` of its body. */
type PageState =
  | 'idle'
  | 'starting'
  | 'joined'
  | 'computing'
  | 'spare'
  | 'paused'
  | 'left'
  | 'failed'
  | 'postponed'
  | 'reconnecting';

/** How it is started in place of this machine's own browser, and with what beside the switches that all have. */
export interface BrowserProgram {
  readonly path: string;
  readonly switches: readonly string[];
}

/** A headless browser with WebGPU, as the donors use it; also for `shoal doctor`. */
export async function launchBrowser(
  program?: BrowserProgram,
): Promise<Result<{ readonly server: BrowserServer; readonly browser: Browser }>> {
  const found = program ?? (await findBrowser());
  if (found === null) return refusal(noBrowser());
  try {
    const server = await chromium.launchServer({
      executablePath: found.path,
      headless: true,
      args: [...WEBGPU_SWITCHES, ...HEADLESS_SWITCHES, ...(program?.switches ?? [])],
      handleSIGINT: false,
      handleSIGTERM: false,
      handleSIGHUP: false,
    });
    return success({ server, browser: await chromium.connect(server.wsEndpoint()) });
  } catch (error) {
    return refusal(`${found.path} does not start: ${error instanceof Error ? error.message.split('\n')[0] : error}`);
  }
}

/** Opens a server's page for its own donors and presses its button; resolves when the server has admitted it. */
export async function openHeadlessDonor(
  url: string,
  number: number,
  log: Log,
  limits: Limits = NO_LIMITS,
  program?: BrowserProgram,
): Promise<Result<HeadlessDonor>> {
  const launched = await launchBrowser(program);
  if (!launched.ok) return launched;
  const { server, browser } = launched.value;
  // It is sent to this very machine's server, whose certificate bears another name.
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const page = await context.newPage();
  page.on('console', (message) => log('debug', `donor ${number}: ${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => log('warn', `donor ${number}: ${error.message}`));
  const ended = new Promise<string>((resolve) => {
    browser.on('disconnected', () => resolve('its browser ended'));
    page.on('crash', () => resolve('its tab crashed'));
    page.on('close', () => resolve('its tab was closed'));
  });
  let processes: Awaited<ReturnType<typeof donorProcesses>> = { renderer: null, network: null };
  const close = async (): Promise<void> => {
    goOn(processes.renderer); // what is stopped does not close
    goOn(processes.network);
    await browser.close().catch(() => {}); // it may be gone already
    await server.close().catch(() => server.kill());
  };
  const peers = new Set<string>();
  await page.exposeFunction('shoalPeer', (peer: string) => peers.add(peer));
  const admitted = await Promise.race([admission(page, `${url}&${limitsFragment(limits)}`), ended.then(refusal)]);
  if (!admitted.ok) {
    await close();
    return refusal(`donor ${number} was not admitted: ${admitted.reason}`);
  }
  log('debug', `donor ${number} is admitted: browser ${server.process().pid}`);
  await tellPeers(page);
  const session = await browser.newBrowserCDPSession();
  processes = await donorProcesses(session);
  const { renderer, network } = processes;
  const over = Promise.race([ended, failure(page)]);
  void over.then(close); // a browser whose tab is gone serves nobody
  const until = (state: PageState): Promise<boolean> =>
    Promise.race([untilState(page, state), over.then(() => false)]).catch(() => false);
  return success({
    page,
    browser,
    browserPid: server.process().pid ?? 0,
    ended: over,
    peers,
    kill: async () => renderer !== null && process.kill(renderer, 'SIGKILL') && (await ended) !== '',
    loseGpu: async () => {
      const lost = until('reconnecting');
      session.send('Browser.crashGpuProcess').catch(() => {}); // the browser may take its time to answer
      return lost;
    },
    mute: () => Promise.race([keepReports(page), over.then(() => false)]).catch(() => false),
    leave: () => Promise.race([pressLeave(page), over.then(() => false)]).catch(() => false),
    freeze: async (seconds) => stopFor(renderer, seconds),
    cut: async (seconds) => stopFor(network, seconds),
    slow: async (times) => limits.speed / times >= LEAST_SPEED && setSpeed(page, limits.speed / times),
    sendNaN: (firstStep) => Promise.race([sendNaN(page, firstStep), over.then(() => false)]).catch(() => false),
    computes: () => until('computing'),
    close,
  });
}

/** As a page would that lost them on the way: everything but this one message leaves it as ever. Resolves when the first one is kept. */
const keepReports = (page: Page): Promise<boolean> =>
  page.evaluate(
    () =>
      new Promise<boolean>((resolve) => {
        const send = WebSocket.prototype.send;
        WebSocket.prototype.send = function (this: WebSocket, data) {
          if (typeof data !== 'string' || JSON.parse(data).type !== 'report') return send.call(this, data);
          resolve(true);
        };
      }),
  );

async function pressLeave(page: Page): Promise<boolean> {
  await page.getByRole('button', { name: 'Leave', exact: true }).click();
  return true;
}

/** By the slider of the page's limits, between its marks too. */
async function setSpeed(page: Page, speed: number): Promise<boolean> {
  await page.locator('#speed').evaluate((slider: HTMLInputElement, percent) => {
    slider.step = 'any';
    slider.value = String(percent);
    slider.dispatchEvent(new Event('input', { bubbles: true }));
  }, speed * 100);
  return true;
}

/** The page marks its body with the name that the server gave it. */
async function tellPeers(page: Page): Promise<void> {
  await page.evaluate(() => {
    const tell = (): void => {
      const { shoalPeer } = globalThis as unknown as { shoalPeer(peer: string): void };
      if (document.body.dataset.peer !== undefined) shoalPeer(document.body.dataset.peer);
    };
    new MutationObserver(tell).observe(document.body, { attributes: true, attributeFilter: ['data-peer'] });
    tell();
  });
}

const untilState = async (page: Page, state: PageState): Promise<boolean> => {
  await page.waitForFunction((wanted) => document.body.dataset.state === wanted, state, {
    timeout: 0,
    polling: POLL_MS,
  });
  return true;
};

async function admission(page: Page, url: string): Promise<Result<null>> {
  try {
    await page.goto(url, { timeout: ADMISSION_LIMIT_MS });
    await page.getByRole('button', { name: 'Donate this GPU', exact: true }).click({ timeout: ADMISSION_LIMIT_MS });
    await page.waitForFunction(
      () => !['idle', 'starting', undefined].includes(document.body.dataset.state),
      undefined,
      { timeout: ADMISSION_LIMIT_MS, polling: POLL_MS },
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
    case 'postponed':
    case 'left':
    case 'reconnecting':
    case 'idle':
    case 'starting':
      return refusal(`its page says ${state}: ${reason}`);
    default:
      return assertNever(state);
  }
}

/** Resolves when the page itself says that it cannot go on, now or ever. Never, where the page goes away first. */
function failure(page: Page): Promise<string> {
  return page
    .waitForFunction(() => ['failed', 'postponed'].includes(document.body.dataset.state ?? ''), undefined, {
      timeout: 0,
      polling: POLL_MS,
    })
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
