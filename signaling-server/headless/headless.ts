/**
 * Donors without a person: each is a headless browser of its own that opens the donor page and presses the same button.
 * They use nothing that a person's tab would not have; what they cost ends with this process, however that ends.
 */
import { assertNever, type Result, refusal, success } from '../../swarm/base.ts';
import { type BrowserName, LEAST_SPEED, type Limits, limitsFragment, NO_LIMITS } from '../../swarm/limits.ts';
import type { RehearsedDonor } from '../faults/rehearsal.ts';
import { messageOf } from '../files/errorWords.ts';
import type { Log } from '../monitoring/log.ts';
import { type BrowserProgram, openChromium } from './chromium.ts';
import { goOn, stopFor } from './donorProcesses.ts';
import type { DonorTab, TabProcesses } from './donorTab.ts';
import { openFirefox } from './firefox.ts';
import { tamper } from './tamper.ts';

/** Time from the browser's start to its admission. Cold starts of several at once take some seconds each. */
const ADMISSION_LIMIT_MS = 120_000;

export interface HeadlessDonor extends RehearsedDonor {
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

/** Absent: this machine's own Chromium, and whatever it has. */
interface DonorOptions {
  readonly browser?: BrowserName;
  readonly limits?: Limits;
  /** In place of this machine's own Chromium. */
  readonly program?: BrowserProgram;
}

/** Opens a server's page for its own donors and presses its button; resolves when the server has admitted it. */
export async function openHeadlessDonor(
  url: string,
  number: number,
  log: Log,
  { browser = 'chromium', limits = NO_LIMITS, program }: DonorOptions = {},
): Promise<Result<HeadlessDonor>> {
  const name = `donor ${number}`;
  const opened = await (browser === 'firefox' ? openFirefox(name, log) : openChromium(name, log, program));
  if (!opened.ok) return opened;
  const tab = opened.value;
  let processes: TabProcesses = { renderer: null, network: null };
  const close = async (): Promise<void> => {
    goOn(processes.renderer); // what is stopped does not close
    goOn(processes.network);
    await tab.close();
  };
  const peers = new Set<string>();
  await tab.expose('shoalPeer', (peer) => peers.add(peer));
  const admitted = await Promise.race([admission(tab, `${url}&${limitsFragment(limits)}`), tab.ended.then(refusal)]);
  if (!admitted.ok) {
    await close();
    return refusal(`${name} was not admitted: ${admitted.reason}`);
  }
  log('debug', `${name} is admitted: browser ${tab.browserPid}`);
  await tellPeers(tab);
  processes = await tab.processes();
  const { renderer, network } = processes;
  const over = Promise.race([tab.ended, failure(tab)]);
  void over.then(close); // a browser whose tab is gone serves nobody
  const unlessOver = (work: Promise<boolean>): Promise<boolean> =>
    Promise.race([work, over.then(() => false)]).catch(() => false);
  const until = (state: PageState): Promise<boolean> => unlessOver(untilState(tab, state));
  return success({
    ended: over,
    peers,
    kill: async () => renderer !== null && process.kill(renderer, 'SIGKILL') && (await tab.ended) !== '',
    loseGpu: async () => {
      if (tab.crashGpuProcess === null) return false;
      const lost = until('reconnecting');
      tab.crashGpuProcess();
      return lost;
    },
    mute: () => unlessOver(keepReports(tab)),
    leave: () => unlessOver(pressLeave(tab)),
    freeze: async (seconds) => stopFor(renderer, seconds),
    cut: async (seconds) => stopFor(network, seconds),
    slow: async (times) => limits.speed / times >= LEAST_SPEED && setSpeed(tab, limits.speed / times),
    tamper: (kind, firstStep) => unlessOver(tamper(tab, kind, firstStep)),
    computes: () => until('computing'),
    close,
  });
}

/** As a page would that lost them on the way: everything but this one message leaves it as ever. Resolves when the first one is kept. */
const keepReports = (tab: DonorTab): Promise<boolean> =>
  tab.evaluate(
    () =>
      new Promise<boolean>((resolve) => {
        const send = WebSocket.prototype.send;
        WebSocket.prototype.send = function (this: WebSocket, data) {
          if (typeof data !== 'string' || JSON.parse(data).type !== 'report') return send.call(this, data);
          resolve(true);
        };
      }),
    null,
  );

async function pressLeave(tab: DonorTab): Promise<boolean> {
  await tab.press('Leave', 0);
  return true;
}

/** By the slider of the page's limits, between its marks too. */
async function setSpeed(tab: DonorTab, speed: number): Promise<boolean> {
  await tab.evaluate((percent) => {
    const slider = document.querySelector<HTMLInputElement>('#speed');
    if (slider === null) return;
    slider.step = 'any';
    slider.value = String(percent);
    slider.dispatchEvent(new Event('input', { bubbles: true }));
  }, speed * 100);
  return true;
}

/** The page marks its body with the name that the server gave it. */
async function tellPeers(tab: DonorTab): Promise<void> {
  await tab.evaluate(() => {
    const tell = (): void => {
      const { shoalPeer } = globalThis as unknown as { shoalPeer(peer: string): void };
      if (document.body.dataset.peer !== undefined) shoalPeer(document.body.dataset.peer);
    };
    new MutationObserver(tell).observe(document.body, { attributes: true, attributeFilter: ['data-peer'] });
    tell();
  }, null);
}

const untilState = async (tab: DonorTab, state: PageState): Promise<boolean> => {
  await tab.waitFor((wanted) => document.body.dataset.state === wanted, state, 0);
  return true;
};

async function admission(tab: DonorTab, url: string): Promise<Result<null>> {
  try {
    await tab.goto(url, ADMISSION_LIMIT_MS);
    await tab.press('Donate this GPU', ADMISSION_LIMIT_MS);
    const isDecided = (): boolean => !['idle', 'starting', undefined].includes(document.body.dataset.state);
    await tab.waitFor(isDecided, null, ADMISSION_LIMIT_MS);
    const { state, reason } = await tab.evaluate(() => ({ ...document.body.dataset }), null);
    return verdict((state ?? 'idle') as PageState, reason ?? 'it gave no reason');
  } catch (error) {
    return refusal(messageOf(error).split('\n')[0] ?? '');
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
async function failure(tab: DonorTab): Promise<string> {
  try {
    await tab.waitFor(() => ['failed', 'postponed'].includes(document.body.dataset.state ?? ''), null, 0);
    return `its page gave up: ${await tab.evaluate(() => document.body.dataset.reason ?? '', null)}`;
  } catch {
    return new Promise<string>(() => {});
  }
}

export async function closeAll(donors: readonly HeadlessDonor[]): Promise<void> {
  await Promise.all(donors.map((donor) => donor.close()));
}
