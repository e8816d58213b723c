/**
 * The donor's worker, and with bridge.ts the only import of comlink: it owns the GPU device, the session (stages,
 * executor) and every timer that matters, and answers the page's calls. Thin: what is decided is decided in the session.
 */
import { expose, type Remote, transfer } from 'comlink';
import { type PeerId, refusal, success } from '../../../swarm/base.ts';
import { HEARTBEAT_MS, type ServerMessage } from '../../../swarm/messages.ts';
import type { Model } from '../../../swarm/model.ts';
import type { Train } from '../../../swarm/runFile.ts';
import { runFiles } from '../executor/runFiles.ts';
import { Session } from '../executor/session.ts';
import { openDevice } from './device.ts';
import { gpuEngine, gpuOf } from './engine.ts';
import type { DonorPage, DonorStatus, DonorWorker } from './protocol.ts';

/** The page draws at most this often. */
const STATUS_INTERVAL_MS = 250;

let session: Session | null = null;

/** Passes on the newest status, at most four a second; the last one always arrives. */
function throttled(show: (status: DonorStatus) => void): (status: DonorStatus) => void {
  let latest: DonorStatus | null = null;
  return (status) => {
    const waiting = latest !== null;
    latest = status;
    if (waiting) return;
    setTimeout(() => {
      if (latest) show(latest);
      latest = null;
    }, STATUS_INTERVAL_MS);
  };
}

async function open(page: Remote<DonorPage>) {
  const opened = await openDevice(navigator.gpu, navigator.userAgent);
  if (!opened.ok) return refusal(opened.reason);
  const { device, profile } = opened.value;
  const gpu = gpuOf(opened.value);
  void device.lost.then(({ reason, message }) => {
    if (reason !== 'destroyed') void page.fail('deviceLost', message);
  });
  device.addEventListener('uncapturederror', ({ error }) => void page.fail('internal', error.message));
  session = new Session({
    page: {
      sendServer: (message) => void page.sendServer(message),
      sendFrame: (peer, message) => page.sendFrame(peer, transfer(message, [message])),
      connect: (peers, epoch) => page.connect([...peers], epoch),
      showStatus: throttled((status) => void page.showStatus(status)),
    },
    engine: (model: Model, train: Train) => gpuEngine(gpu, model, train),
    files: (token) => runFiles(fetch, new URL('/', location.href), token),
    now: () => performance.now() / 1000,
  });
  setInterval(() => void page.sendServer({ type: 'heartbeat' }), HEARTBEAT_MS);
  return success(profile);
}

const worker: DonorWorker = {
  open: (page) => open(page as Remote<DonorPage>), // comlink hands over a proxy of what the page gave
  serverSaid: (message: ServerMessage) => session?.serverSaid(message),
  peerSent: (from: PeerId, message: ArrayBuffer) => session?.peerSent(from, message),
  linkLost: (peer: PeerId) => session?.linkLost(peer),
  disconnected: () => session?.disconnected(),
  wait: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
};

expose(worker);
