/**
 * The donor's worker, and with bridge.ts the only import of comlink: it owns the GPU device, the session (stages,
 * executor) and every timer that matters, and answers the page's calls. Thin: what is decided is decided in the session.
 */
import '../page/noEval.ts';
import { expose, type Remote, transfer } from 'comlink';
import { invariant, refusal, success } from '../../../swarm/base.ts';
import { type Limits, NO_LIMITS } from '../../../swarm/limits.ts';
import type { About } from '../../../swarm/messages/about.ts';
import { HEARTBEAT_MS, type ServerMessage } from '../../../swarm/messages/messages.ts';
import type { AdapterProfile } from '../../../swarm/messages/profile.ts';
import { modelToTrain } from '../../../swarm/run/runFile.ts';
import { openPieces } from '../executor/pieceStore.ts';
import type { DonorPage, DonorStatus, DonorWorker } from '../executor/protocol.ts';
import { runFiles } from '../executor/runFiles.ts';
import { Session } from '../executor/session.ts';
import { admit, tryLayers } from '../gpu/admission.ts';
import { type Gpu, openDevice } from '../gpu/device.ts';
import { gpuEngine, gpuOf } from '../gpu/engine.ts';
import { WorkerCalls } from '../net/calls.ts';
import { connectionBy } from '../net/connection.ts';
import { linkOver } from '../net/link.ts';
import { Neighbourhood, PULSE_MS } from '../net/neighbourhood.ts';
import { wallMs } from '../page/clock.ts';

/** The page draws at most this often. */
const STATUS_INTERVAL_MS = 250;

type Welcome = Extract<ServerMessage, { type: 'welcome' }>;

let session: Session | null = null;
let neighbourhood: Neighbourhood | null = null;
let calls: WorkerCalls | null = null;
/** One for the worker's life: whatever was compiled for one purpose is there for every other. */
let gpu: Gpu | null = null;
let limits: Limits = NO_LIMITS;
let check: (welcome: Welcome) => Promise<void> = async () => {};
let checking: Promise<void> = Promise.resolve();
/** Of the connection there is; what was measured for an earlier one is not told to it. */
let newest: Welcome | null = null;

const now = (): number => performance.now() / 1000;
const wait = (seconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

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

/** Checks this GPU for the run of a welcome, and tells what was measured unless another welcome came meanwhile. */
const checkBy = (page: Remote<DonorPage>, own: Gpu, adapter: AdapterProfile) => async (welcome: Welcome) => {
  const { run } = welcome;
  if (welcome !== newest) return;
  const model = modelToTrain(run);
  if (!model.ok) return; // the session says so
  const memory = { recall: () => page.recall(), remember: (checks: string) => page.remember(checks) };
  const { memoryBytes } = limits;
  const { train, wire, compute: asked, stateWire } = run;
  const ofRun = { model: model.value, train, wire, asked, stateWire };
  const evaluates = run.evaluation !== null;
  const applicant = { ...ofRun, evaluates, gpu: own, adapter, memoryBytes, memory, now, wallMs };
  const machineGibibytes = 'deviceMemory' in navigator ? Number(navigator.deviceMemory) : undefined;
  const admitted = await admit({ ...applicant, drafted: welcome.memory, machineGibibytes });
  if (welcome !== newest) return;
  if (admitted.ok) session?.measured(admitted.value);
  else await page.fail('wrongGpu', admitted.reason);
};

async function open(page: Remote<DonorPage>, given: Limits) {
  const found = await openDevice(navigator.gpu, navigator.userAgent, { now, wait });
  if (!found.ok) return refusal(found.reason);
  const { device, profile } = found.value;
  const own = gpuOf(found.value);
  gpu = own;
  void device.lost.then(({ reason, message }) => {
    if (reason !== 'destroyed') void page.fail('deviceLost', message);
  });
  device.addEventListener('uncapturederror', ({ error }) => void page.fail('internal', error.message));
  const made = new WorkerCalls(
    {
      call: (id, call) => void page.call(id, call),
      callSignal: (id, data) => void page.callSignal(id, data),
      hangUp: (id) => void page.hangUp(id),
    },
    (answers) => neighbourhood?.turnAnswered(answers),
  );
  const ways = new Neighbourhood({
    openLink: linkOver(connectionBy(made.dial)),
    now: () => performance.now(),
    send: (message) => void page.sendServer(message),
    sendBytes: (message) => void page.sendBytes(transfer(message, [message.buffer])),
    onFrame: (from, message) => session?.peerSent(from, message),
    onLost: (peer) => session?.linkLost(peer),
    onMeasured: (measured) => {
      session?.linksMeasured(measured);
      void page.showLinks(measured);
    },
    mayMeasure: () => page.mayMeasure(),
  });
  [calls, neighbourhood] = [made, ways];
  setInterval(() => ways.pulse(), PULSE_MS);
  const pieces = await openPieces(() => navigator.storage.getDirectory());
  session = new Session({
    page: {
      sendServer: (message) => void page.sendServer(message),
      mayAnswer: () => page.mayAnswer(),
      showStatus: throttled((status) => void page.showStatus(status)),
    },
    ways,
    engine: (...of) => gpuEngine(own, ...of),
    files: (token) => runFiles(fetch, new URL('/', location.href), token),
    ...(pieces && { pieces }),
    now,
    wait,
  });
  limit(given);
  check = checkBy(page, own, profile);
  setInterval(() => {
    const at = session?.progress();
    void page.sendServer({ type: 'heartbeat', ...(at && { at }) });
  }, HEARTBEAT_MS);
  return success(profile);
}

function limit(given: Limits): void {
  limits = given;
  session?.limit(given);
}

async function tryOut(about: About, seconds: number, onRound: (tokensPerSecond: number, seconds: number) => void) {
  invariant(gpu, 'the device is opened first');
  const model = modelToTrain(about);
  invariant(model.ok, 'the server serves a model that it would have refused itself');
  const { memoryBytes } = limits;
  return tryLayers({ gpu, model: model.value, train: about.train, memoryBytes, now }, seconds, onRound);
}

/** On every welcome but of one that comes back under its name: the check and the measurements, then the server may plan with this donor. */
function serverSaid(message: ServerMessage, relayOnly: boolean): void {
  neighbourhood?.serverSaid(message, relayOnly);
  if (message.type === 'signal') return;
  const isStill = message.type === 'welcome' && session?.isStill(message.peer);
  session?.serverSaid(message);
  if (message.type !== 'welcome' || isStill) return;
  newest = message;
  // One at a time: a connection that came back during a check has its own after it.
  checking = checking
    .then(() => check(message))
    .catch((error: unknown) => {
      setTimeout(() => {
        throw error; // the page hears of it as of any other error of the worker
      });
    });
}

const worker: DonorWorker = {
  open: (page, given) => open(page as Remote<DonorPage>, given), // comlink hands over a proxy of what the page gave
  tryOut,
  limit,
  serverSaid,
  serverSentBytes: (message) => neighbourhood?.serverSentBytes(message),
  callTold: (id, news) => calls?.told(id, news),
  disconnected: (isKept) => {
    newest = null;
    neighbourhood?.disconnected(isKept);
    session?.disconnected(isKept);
  },
  wait: (milliseconds) => wait(milliseconds / 1000),
};

expose(worker);
