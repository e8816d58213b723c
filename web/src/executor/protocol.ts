/**
 * What the page and its worker say to each other, and nothing else. The worker owns the GPU, the stages, the executor
 * every timer that matters, and what goes to other donors and comes from them; the page owns the socket and the words on
 * screen, and makes the connections.
 */

import type { PeerId, Result } from '../../../swarm/base.ts';
import type { Limits } from '../../../swarm/limits.ts';
import type { About } from '../../../swarm/messages/about.ts';
import type { PeerMessage, ServerMessage } from '../../../swarm/messages/messages.ts';
import type { AdapterProfile, MeasuredLinks } from '../../../swarm/messages/profile.ts';
import type { Timeline } from '../../../swarm/timeline/timeline.ts';
import type { Wait } from '../../../swarm/timeline/waits.ts';
import type { CallMaker, CallNews } from '../net/calls.ts';

/** One step of this tab, as it was. Seconds since the step began. */
export interface StepTrace {
  readonly epoch: number;
  readonly step: number;
  readonly seconds: number;
  /** Sent to and received from other donors while it lasted. */
  readonly bytes: number;
  readonly spans: Timeline;
  /** Standing still for what a peer sends, or (null) for the step's commit. */
  readonly waits: readonly Wait[];
}

/** What this tab is doing, for the page to show. Sent on change, at most four times a second. */
export interface DonorStatus {
  readonly activity: 'idle' | 'preparing' | 'computing' | 'waiting' | 'updating' | 'evaluating';
  readonly step: number | null;
  /** Of this tab in the plan that is done, or prepared; of so many. */
  readonly stages: readonly { readonly stage: number; readonly layers: readonly [number, number] }[];
  readonly stageCount: number;
  readonly gpuMemoryBytes: number;
  readonly droppedFrames: number;
  /** Tokens of questions and answers that went through its stages. */
  readonly answeredRows: number;
  /** Share of the last minute in which the GPU was busy, measured; null before it had work. */
  readonly busyShare: number | null;
  /** Tensors and files, since this worker began. */
  readonly bytesSent: number;
  readonly bytesReceived: number;
  /** What goes and comes now, and the most that a second brought: bytes a second. */
  readonly rates: { readonly sent: number; readonly received: number; readonly mostReceived: number };
  /** Of the newest step: those carried back through this tab's stages, and all of them. */
  readonly microBatches: { readonly done: number; readonly all: number };
  /** What was computed last of it. */
  readonly direction: 'forward' | 'backward' | null;
  /** Whose tensors the work stands still for, at this moment. */
  readonly waitsFor: PeerId | null;
  readonly lastStep: StepTrace | null;
}

/** The page, as its worker sees it (a comlink proxy). */
export interface DonorPage extends CallMaker {
  /** To the server. Dropped while there is no connection: the server forgets this donor then anyway. */
  sendServer(message: PeerMessage): void;
  /** To be relayed; transferred, and dropped as the above. */
  sendBytes(message: Uint8Array<ArrayBuffer>): void;
  /** The ways to the peers of the plan, as they are by now. */
  showLinks(measured: MeasuredLinks): void;
  /** Whether a link may be measured that nothing else is sent through: not where the day's traffic is nearly used up. */
  mayMeasure(): Promise<boolean>;
  /** Whether this donor may answer questions now. */
  mayAnswer(): Promise<boolean>;
  showStatus(status: DonorStatus): void;
  /** The device is gone, or the worker cannot go on: close the connection, start over with a new worker. */
  fail(reason: WorkerFailure, detail: string): void;
  /** What earlier visits of this browser found right of its GPU. */
  recall(): Promise<string | null>;
  remember(checks: string): Promise<void>;
}

/** wrongGpu: it computes wrongly; starting over would not mend it. */
export type WorkerFailure = 'deviceLost' | 'wrongGpu' | 'internal';

/** The worker, as the page sees it. Calls arrive in the order they were made. */
export interface DonorWorker {
  /** Opens adapter and device, describes them; or the sentence why there is none. */
  open(page: DonorPage, limits: Limits): Promise<Result<AdapterProfile>>;
  /** Before any server is called: this run's own work for so long, told as it goes. Null: not even a layer fits. */
  tryOut(
    about: About,
    seconds: number,
    onRound: (tokensPerSecond: number, seconds: number) => void,
  ): Promise<number | null>;
  /** What this donor gives from now on. */
  limit(limits: Limits): void;
  /** Every server message but `snapshot`, in order; `welcome` first. `relayOnly`: no other donor may learn this tab's address. */
  serverSaid(message: ServerMessage, relayOnly: boolean): void;
  /** A binary message of the server; transferred. */
  serverSentBytes(message: ArrayBuffer): void;
  /** What became of a connection that this worker asked for; channels are transferred. */
  callTold(id: number, news: CallNews): void;
  /** The socket is gone; a new `welcome` follows some day. Unless what is here is kept for it, the plan is dropped. */
  disconnected(isKept: boolean): void;
  /** Resolves after this much time by the worker's clock: the timers of a hidden page are late, a worker's are not. */
  wait(milliseconds: number): Promise<void>;
}
