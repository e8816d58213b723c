/**
 * The contract of `Link` on simple-peer, for a page of the end-to-end tests: the browser's own data channels carry it, as
 * they are, or by ports, as in a browser that does not let them go to a worker.
 */
import { PageCalls, WorkerCalls } from '../net/calls.ts';
import { connectionBy } from '../net/connection.ts';
import { linkOver } from '../net/link.ts';
import { type Dial, dialPeer } from '../net/peerConnection.ts';
import type { DataChannel } from '../net/portChannel.ts';
import { LINK_CONTRACT } from './linkContract.ts';

declare global {
  interface Window {
    /** Resolves where the case holds, rejects with what does not. */
    runLinkCase(title: string, by: 'channels' | 'ports'): Promise<void>;
  }
}

/** Page and worker in one thread. */
function dialByPorts(): Dial<DataChannel> {
  const page = new PageCalls(dialPeer, false, (id, news) => worker.told(id, news));
  const worker = new WorkerCalls(page);
  return worker.dial;
}

window.runLinkCase = async (title, by) => {
  const dial = by === 'ports' ? dialByPorts() : dialPeer;
  await LINK_CONTRACT.find((each) => each.title === title)?.run(linkOver(connectionBy(dial)));
};
