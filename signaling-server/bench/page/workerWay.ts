/** The page's side of transportWorker.ts. */
import { canMoveChannels, movedWith, PageCalls } from '../../../web/src/net/calls.ts';
import { dialPeer } from '../../../web/src/net/peerConnection.ts';
import type { FromTransportWorker, ToTransportWorker } from './transportWorker.ts';
import workerUrl from './transportWorker.ts?worker&url';

export class WorkerWay {
  readonly #worker = new Worker(workerUrl, { type: 'module' });
  #measured: (value: number) => void = () => {};

  /** `byPorts`: as in a browser that does not let channels go. */
  constructor(initiator: boolean, byPorts: boolean, carry: (data: string) => void) {
    const calls = new PageCalls(dialPeer, !byPorts && canMoveChannels(), (id, news) =>
      this.#tell({ news: [id, news] }, movedWith(news)),
    );
    this.#worker.onmessage = ({ data }: MessageEvent<FromTransportWorker>) => {
      if ('call' in data) calls.call(...data.call);
      else if ('callSignal' in data) calls.callSignal(...data.callSignal);
      else if ('hangUp' in data) calls.hangUp(data.hangUp);
      else if ('signal' in data) carry(data.signal);
      else this.#measured(data.measured);
    };
    this.#tell({ open: initiator ? 'offers' : 'answers' });
  }

  signalled(data: string): void {
    this.#tell({ signalled: data });
  }

  /** Bytes a second. */
  rate(bytes: number): Promise<number> {
    return this.#ask('rate', bytes);
  }

  /** Milliseconds. */
  roundTrip(bytes: number): Promise<number> {
    return this.#ask('roundTrip', bytes);
  }

  #ask(measure: 'rate' | 'roundTrip', bytes: number): Promise<number> {
    return new Promise((resolve) => {
      this.#measured = resolve;
      this.#tell({ measure, bytes });
    });
  }

  #tell(what: ToTransportWorker, transfer: Transferable[] = []): void {
    this.#worker.postMessage(what, transfer);
  }
}
