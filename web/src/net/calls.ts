/**
 * A donor's worker sends and receives, and only its page can make connections: here is what the two say to each other of
 * that. The page hands the channels over, themselves where the browser lets them go, so that nothing that they carry
 * passes through it.
 */
import type { Call, CallEvents, Called, Channels, Dial, Stranding } from './peerConnection.ts';
import { type DataChannel, PortChannel, portTo } from './portChannel.ts';
import type { TurnAnswer } from './turnGathering.ts';

/** As it goes to the worker: the channel, or a port to it. */
type MovedChannel = RTCDataChannel | MessagePort;

/** What happens to a call, as `CallEvents` has it. */
export type CallNews =
  | { readonly kind: 'channels'; readonly channels: Channels<MovedChannel> }
  | { readonly kind: 'signal'; readonly data: string }
  | { readonly kind: 'stranded'; readonly why: Stranding }
  | { readonly kind: 'turnAnswered'; readonly answers: readonly TurnAnswer[] }
  | { readonly kind: 'closed'; readonly reason: string };

/** What of it goes to the worker and stays there. */
export const movedWith = (news: CallNews): Transferable[] =>
  news.kind === 'channels' ? (Object.values(news.channels) as Transferable[]) : []; // the library knows no RTCDataChannel

/** What the worker asks of its page; `id`s are the worker's. */
export interface CallMaker {
  call(id: number, call: Call): void;
  callSignal(id: number, data: string): void;
  hangUp(id: number): void;
}

/** Whether this browser lets a channel go to another thread: it says so by doing it. Where it makes no connection now, by none. */
export function canMoveChannels(): boolean {
  let connection: RTCPeerConnection | undefined;
  try {
    connection = new RTCPeerConnection();
    const channel: unknown = connection.createDataChannel('');
    structuredClone(channel, { transfer: [channel as Transferable] });
    return true;
  } catch {
    return false;
  } finally {
    connection?.close();
  }
}

/** The page's calls for its worker. `close()` ends them all, whatever the worker does. */
export class PageCalls implements CallMaker {
  readonly #dial: Dial<RTCDataChannel>;
  readonly #canMove: boolean;
  readonly #tell: (id: number, news: CallNews) => void;
  readonly #called = new Map<number, Called>();

  constructor(dial: Dial<RTCDataChannel>, canMove: boolean, tell: (id: number, news: CallNews) => void) {
    this.#dial = dial;
    this.#canMove = canMove;
    this.#tell = tell;
  }

  call(id: number, call: Call): void {
    const tell = (news: CallNews): void => this.#tell(id, news);
    const events: CallEvents<RTCDataChannel> = {
      channels: ({ frames, quick, heartbeat }) => {
        const moved = (channel: RTCDataChannel): MovedChannel => (this.#canMove ? channel : portTo(channel));
        tell({
          kind: 'channels',
          channels: { frames: moved(frames), quick: moved(quick), heartbeat: moved(heartbeat) },
        });
      },
      signal: (data) => tell({ kind: 'signal', data }),
      stranded: (why) => tell({ kind: 'stranded', why }),
      turnAnswered: (answers) => tell({ kind: 'turnAnswered', answers }),
      closed: (reason) => {
        this.#called.delete(id);
        tell({ kind: 'closed', reason });
      },
    };
    this.#called.set(id, this.#dial(call, events));
  }

  callSignal(id: number, data: string): void {
    this.#called.get(id)?.signal(data);
  }

  hangUp(id: number): void {
    const called = this.#called.get(id);
    this.#called.delete(id);
    called?.close();
  }

  close(): void {
    for (const id of [...this.#called.keys()]) this.hangUp(id);
  }
}

/** The worker's calls through its page. */
export class WorkerCalls {
  readonly #page: CallMaker;
  readonly #turnAnswered: (answers: readonly TurnAnswer[]) => void;
  readonly #events = new Map<number, CallEvents<DataChannel>>();
  #calls = 0;

  /** The servers are all calls' own: of them it is heard after a call's end, too. */
  constructor(page: CallMaker, turnAnswered: (answers: readonly TurnAnswer[]) => void = () => {}) {
    this.#page = page;
    this.#turnAnswered = turnAnswered;
  }

  readonly dial: Dial<DataChannel> = (call, events) => {
    this.#calls += 1;
    const id = this.#calls;
    this.#events.set(id, events);
    this.#page.call(id, call);
    return {
      signal: (data) => this.#page.callSignal(id, data),
      close: () => {
        if (this.#events.delete(id)) this.#page.hangUp(id);
      },
    };
  };

  /** The page's word. Of one that was closed here nothing is heard any more but of TURN servers. */
  told(id: number, news: CallNews): void {
    if (news.kind === 'turnAnswered') {
      this.#turnAnswered(news.answers);
      return;
    }
    const events = this.#events.get(id);
    if (!events) return;
    if (news.kind === 'closed') this.#events.delete(id);
    switch (news.kind) {
      case 'channels': {
        const { frames, quick, heartbeat } = news.channels;
        events.channels({ frames: here(frames), quick: here(quick), heartbeat: here(heartbeat) });
        break;
      }
      case 'signal':
        events.signal(news.data);
        break;
      case 'stranded':
        events.stranded(news.why);
        break;
      default:
        events.closed(news.reason);
    }
  }
}

const here = (moved: MovedChannel): DataChannel => (moved instanceof MessagePort ? new PortChannel(moved) : moved);
