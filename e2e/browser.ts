/**
 * Real browsers with the real pages in them, each browser a process of its own as donors are. What a test waits for is
 * what the page or the server says, never an amount of time.
 */
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright';
import {
  findBrowser,
  HEADLESS_SWITCHES,
  noBrowser,
  WEBGPU_SWITCHES,
} from '../signaling-server/headless/findBrowser.mjs';
import { invariant } from '../swarm/base.ts';
import type { Snapshot } from '../swarm/messages/snapshot.ts';
import { decodeWatchMessage } from '../swarm/messages/watch.ts';
import { atTestEnd, type ProductServer } from './product.ts';

/** Four browsers on two busy cores start slowly. */
const PATIENCE_MS = 300_000;

/** Which browser, and how it is started. */
export async function launchOptions(
  switches: readonly string[] = [],
): Promise<{ readonly executablePath: string; readonly args: string[] }> {
  const found = await findBrowser();
  invariant(found, noBrowser());
  return { executablePath: found.path, args: [...HEADLESS_SWITCHES, ...switches] };
}

export interface OpenBrowser {
  readonly browser: Browser;
  readonly context: BrowserContext;
  /** SIGKILL to its processes, as a crash would be. */
  kill(): Promise<void>;
}

interface BrowserOptions {
  readonly switches?: readonly string[];
  readonly webGpu?: boolean;
}

export async function openBrowser({ switches = [], webGpu = true }: BrowserOptions = {}): Promise<OpenBrowser> {
  const server = await chromium.launchServer(await launchOptions([...(webGpu ? WEBGPU_SWITCHES : []), ...switches]));
  let isKilled = false;
  const kill = async (): Promise<void> => {
    isKilled = true;
    await server.kill();
  };
  atTestEnd(() => (isKilled ? undefined : server.close().catch(kill)));
  const browser = await chromium.connect(server.wsEndpoint());
  const context = await browser.newContext();
  context.setDefaultTimeout(PATIENCE_MS);
  return { browser, context, kill };
}

/** What the page marks its body with. */
type DonorState =
  | 'idle'
  | 'starting'
  | 'joined'
  | 'computing'
  | 'spare'
  | 'paused'
  | 'left'
  | 'failed'
  | 'reconnecting';

export const untilState = async (page: Page, state: DonorState): Promise<void> => {
  await page.locator(`body[data-state="${state}"]`).waitFor();
};

export interface Donor extends OpenBrowser {
  readonly page: Page;
  until(state: DonorState): Promise<void>;
  press(button: 'Donate this GPU' | 'Pause' | 'Resume' | 'Leave'): Promise<void>;
  /** The value and the note of one number on the page: `1 of 2 layers 1–2`. */
  untilShows(label: string, text: RegExp): Promise<void>;
}

interface DonorOptions extends BrowserOptions {
  /** Awaited before the page loads anything. */
  readonly prepare?: (page: Page) => unknown;
}

/** A donor as a person is one: opens the page, presses the button; returns once the server has admitted it. */
export async function openDonor(url: string, { prepare, ...options }: DonorOptions = {}): Promise<Donor> {
  const opened = await openBrowser(options);
  const page = await opened.context.newPage();
  await prepare?.(page);
  // All of its GPU: a test has no time for a gentle one.
  await page.goto(`${url}${url.includes('#') ? '&' : '/#'}speed=1`);
  const press: Donor['press'] = (name) => page.getByRole('button', { name, exact: true }).click();
  await press('Donate this GPU');
  await page.locator('body:not([data-state="idle"]):not([data-state="starting"])').waitFor();
  return {
    ...opened,
    page,
    press,
    until: (state) => untilState(page, state),
    untilShows: (label, text) =>
      page
        .locator('.stat', { has: page.getByText(label, { exact: true }), hasText: text })
        .first()
        // Also among the details, which are closed.
        .waitFor({ state: 'attached' }),
  };
}

/** The operator's page, and what the server tells it. */
export class Operator {
  readonly page: Page;
  #snapshot: Snapshot | null = null;
  /** Each with the words of what it waits for. */
  readonly #listeners = new Map<() => void, string>();

  constructor(page: Page) {
    this.page = page;
    page.on('websocket', (socket) => {
      socket.on('framereceived', ({ payload }) => {
        const decoded = decodeWatchMessage(String(payload));
        if (!decoded.ok) throw new Error(decoded.reason);
        this.#snapshot = decoded.value.snapshot;
        for (const listener of [...this.#listeners.keys()]) listener();
      });
    });
  }

  /** The first snapshot from now on of which this holds. */
  until(holds: (snapshot: Snapshot) => boolean): Promise<Snapshot> {
    return new Promise((resolve) => {
      const look = (): void => {
        if (this.#snapshot === null || !holds(this.#snapshot)) return;
        this.#listeners.delete(look);
        resolve(this.#snapshot);
      };
      this.#listeners.set(look, String(holds));
      look();
    });
  }

  /** What a test that ends still waits for: for whoever reads why its time was over. */
  sayAwaited(): void {
    for (const awaited of this.#listeners.values())
      console.error(`still awaited: ${awaited}; now: ${said(this.#snapshot)}`);
  }

  /** When so many more steps are committed than are now. */
  async untilFurther(steps: number): Promise<Snapshot> {
    const { committedSteps } = await this.until(() => true);
    return this.until((now) => now.committedSteps >= committedSteps + steps);
  }

  async press(name: 'Start' | 'Pause' | 'Resume' | 'Stop'): Promise<void> {
    await this.page.getByRole('button', { name, exact: true }).click();
    if (name === 'Stop') await this.page.getByRole('button', { name: 'Yes, stop' }).click();
  }
}

const said = (snapshot: Snapshot | null): string =>
  snapshot === null ? 'nothing' : `${snapshot.phase}, ${snapshot.committedSteps} steps: ${snapshot.sentence}`;

export async function openOperator({ operatorUrl }: Pick<ProductServer, 'operatorUrl'>): Promise<Operator> {
  const { context } = await openBrowser({ webGpu: false });
  const operator = new Operator(await context.newPage());
  atTestEnd(() => operator.sayAwaited());
  await operator.page.goto(operatorUrl);
  await operator.until(() => true);
  return operator;
}
