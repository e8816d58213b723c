/**
 * The page's end of the worker, and with worker.ts the only import of comlink. A worker that dies answers nothing, so
 * every call races with its death; who waits for an answer gets a rejection, never silence.
 */
import { proxy, type Remote, releaseProxy, transfer, wrap } from 'comlink';
import type { Result } from '../../../swarm/base.ts';
import type { Limits } from '../../../swarm/limits.ts';
import type { About } from '../../../swarm/messages/about.ts';
import type { ServerMessage } from '../../../swarm/messages/messages.ts';
import type { AdapterProfile } from '../../../swarm/messages/profile.ts';
import type { DonorPage, DonorWorker } from '../executor/protocol.ts';
import { type CallNews, movedWith } from '../net/calls.ts';
import workerUrl from './worker.ts?worker&url';

interface TrustedTypes {
  createPolicy(name: string, rules: { createScriptURL(url: string): string }): { createScriptURL(url: string): string };
}
declare global {
  var trustedTypes: TrustedTypes | undefined;
}

/** The server's policy (pages.ts) lets no text be a script's address on this page but what this says, and says once. */
const WORKER_ADDRESS =
  globalThis.trustedTypes
    ?.createPolicy('shoal-worker', { createScriptURL: () => workerUrl })
    .createScriptURL(workerUrl) ?? workerUrl;

/** Loading the worker, adapter and device take half a second; a driver that hangs takes for ever. */
const OPEN_LIMIT_MS = 30_000;

/** Owns a worker; `close()` ends it at once, whatever it is doing. */
export class DonorBridge {
  readonly #worker: Worker;
  readonly #remote: Remote<DonorWorker>;
  readonly #page: DonorPage;
  readonly #dead: Promise<never>;
  #die: (error: Error) => void = () => {};
  #closed = false;

  /** `page.fail` is also called for what the worker cannot say itself: that it crashed or was not loaded. */
  constructor(page: DonorPage) {
    this.#page = page;
    this.#dead = new Promise((_, reject) => {
      this.#die = reject;
    });
    this.#dead.catch(() => {}); // who waits hears of it; nobody need wait
    this.#worker = new Worker(WORKER_ADDRESS, { type: 'module', name: 'shoal' });
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#fail(event.message || 'its worker could not be loaded; a content blocker may have stopped it');
    };
    this.#worker.onmessageerror = () => this.#fail('a message of the worker could not be read');
    this.#remote = wrap<DonorWorker>(this.#worker);
  }

  /** Opens adapter and device. A refusal says what is missing; a rejection, that the worker died or hangs. */
  async open(limits: Limits): Promise<Result<AdapterProfile>> {
    const page = proxy(this.#guardedPage());
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error('the GPU did not answer')), OPEN_LIMIT_MS);
    });
    try {
      return await Promise.race([this.#remote.open(page, limits), late, this.#dead]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Rejects when the worker ends before it has an answer. */
  tryOut(about: About, seconds: number, onRound: Parameters<DonorWorker['tryOut']>[2]): Promise<number | null> {
    return Promise.race([this.#remote.tryOut(about, seconds, proxy(onRound)), this.#dead]);
  }

  serverSaid(message: ServerMessage, relayOnly: boolean): void {
    this.#tell(() => this.#remote.serverSaid(message, relayOnly));
  }

  /** The message belongs to the worker afterwards. */
  serverSentBytes(message: ArrayBuffer): void {
    this.#tell(() => this.#remote.serverSentBytes(transfer(message, [message])));
  }

  /** Channels belong to the worker afterwards. */
  callTold(id: number, news: CallNews): void {
    this.#tell(() => this.#remote.callTold(id, transfer(news, movedWith(news))));
  }

  limit(limits: Limits): void {
    this.#tell(() => this.#remote.limit(limits));
  }

  disconnected(isKept: boolean): void {
    this.#tell(() => this.#remote.disconnected(isKept));
  }

  /** By the worker's clock, while there is one. */
  async wait(milliseconds: number): Promise<void> {
    await Promise.race([this.#remote.wait(milliseconds), this.#dead]);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#die(new Error('the worker is closed'));
    this.#remote[releaseProxy]();
    this.#worker.terminate();
  }

  /** A call without an answer: only its failure is news. */
  #tell(call: () => Promise<void>): void {
    if (!this.#closed) call().catch((error: unknown) => this.#fail(String(error)));
  }

  #fail(detail: string): void {
    if (this.#closed) return;
    this.#die(new Error(detail));
    this.#page.fail('internal', detail);
  }

  /** What a closed worker still says is not heard: its messages may be on their way when it ends. */
  #guardedPage(): DonorPage {
    const page = this.#page;
    return {
      sendServer: (message) => {
        if (!this.#closed) page.sendServer(message);
      },
      sendBytes: (message) => {
        if (!this.#closed) page.sendBytes(message);
      },
      call: (id, call) => {
        if (!this.#closed) page.call(id, call);
      },
      callSignal: (id, data) => {
        if (!this.#closed) page.callSignal(id, data);
      },
      hangUp: (id) => {
        if (!this.#closed) page.hangUp(id);
      },
      showLinks: (measured) => {
        if (!this.#closed) page.showLinks(measured);
      },
      mayAnswer: async () => !this.#closed && (await page.mayAnswer()),
      mayMeasure: async () => !this.#closed && (await page.mayMeasure()),
      showStatus: (status) => {
        if (!this.#closed) page.showStatus(status);
      },
      fail: (reason, detail) => {
        if (!this.#closed) page.fail(reason, detail);
      },
      recall: () => page.recall(),
      remember: (checks) => page.remember(checks),
    };
  }
}
