/** One end of a link whose channels are here, as a donor's worker has them: its page makes the connection. */
import '../../../web/src/page/noEval.ts';
import { type CallNews, WorkerCalls } from '../../../web/src/net/calls.ts';
import { connectionBy } from '../../../web/src/net/connection.ts';
import { linkOver } from '../../../web/src/net/link.ts';
import type { Call } from '../../../web/src/net/peerConnection.ts';
import { LinkWay, rateOf } from './linkWay.ts';

export type ToTransportWorker =
  | { readonly open: 'offers' | 'answers' }
  | { readonly signalled: string }
  | { readonly news: readonly [id: number, news: CallNews] }
  | { readonly measure: 'rate' | 'roundTrip'; readonly bytes: number };

export type FromTransportWorker =
  | { readonly call: readonly [id: number, call: Call] }
  | { readonly callSignal: readonly [id: number, data: string] }
  | { readonly hangUp: number }
  | { readonly signal: string }
  | { readonly measured: number };

const tell = (what: FromTransportWorker): void => postMessage(what);
const calls = new WorkerCalls({
  call: (...call) => tell({ call }),
  callSignal: (...callSignal) => tell({ callSignal }),
  hangUp: (hangUp) => tell({ hangUp }),
});
let way: LinkWay | null = null;

async function measured(of: 'rate' | 'roundTrip', bytes: number): Promise<number> {
  if (!way) throw new Error('open comes first');
  await way.opened;
  return of === 'rate' ? rateOf(way, bytes) : way.roundTrip(bytes);
}

globalThis.addEventListener('message', ({ data }: MessageEvent<ToTransportWorker>) => {
  if ('open' in data)
    way = new LinkWay(linkOver(connectionBy(calls.dial)), data.open === 'offers', (signal) => tell({ signal }));
  else if ('signalled' in data) way?.link.signal(data.signalled);
  else if ('news' in data) calls.told(...data.news);
  else void measured(data.measure, data.bytes).then((value) => tell({ measured: value }));
});
