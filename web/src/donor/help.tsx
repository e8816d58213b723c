/** What lies at the page's end: what is kept here, and, when something is wrong, what happened here, where the browser says more, and a text to hand on. */
import { useEffect, useState } from 'preact/hooks';
import { bytesText } from '../../../swarm/quantityText.ts';
import { type KeptPieces, openPieces } from '../executor/pieceStore.ts';
import { wallMs } from '../page/clock.ts';
import { percentText } from '../page/format.ts';
import type { DonorState } from './state.ts';

const GPU_PAGES = { Chrome: 'chrome://gpu', Edge: 'edge://gpu', Firefox: 'about:support', Safari: null } as const;

/** What looks like an IP address. A browser's version does, too, but stands behind a slash. */
const ADDRESSES = /(?<![\w./])\d{1,3}(\.\d{1,3}){3}\b|\b(?:[\da-f]{0,4}:){3,7}[\da-f]{0,4}\b/gi;

export const withoutAddresses = (text: string): string => text.replace(ADDRESSES, '[address]');

/** What a person can hand to whoever runs the server, or to us: without IP addresses. Pure. */
export function diagnostics(state: DonorState, userAgent: string, nowMs: number): string {
  const { machine, adapter, limits, preferences, status, snapshot, links } = state;
  const gpu = adapter ?? (machine.gpu.kind === 'found' ? machine.gpu.adapter : null);
  const lines = [
    `Shoal donor page, ${new Date(nowMs).toISOString()}`,
    `Browser: ${userAgent}`,
    `GPU: ${gpu ? JSON.stringify({ ...gpu, browser: undefined }) : machine.gpu.kind}`,
    `State: ${JSON.stringify(state.phase)}, pending ${state.pending}, rest ${JSON.stringify(state.rest)}`,
    `Limits: ${JSON.stringify(limits)}; ${JSON.stringify(preferences)}`,
    `Conditions: ${JSON.stringify(state.surroundings)}; today ${JSON.stringify(state.today)}; takes ${percentText(state.eased)} of its share`,
    `Run: ${snapshot ? `${snapshot.phase}, step ${snapshot.committedSteps} of ${snapshot.steps}, epoch ${snapshot.epoch}, ${snapshot.donors.length + (snapshot.others ?? 0)} donors` : 'not known'}`,
    ...(status
      ? [
          `Work: ${status.activity}, step ${status.step}, stages ${JSON.stringify(status.stages)}, ${bytesText(status.gpuMemoryBytes)} of GPU memory, busy ${percentText(status.busyShare)}, ${status.bytesSent} bytes sent, ${status.bytesReceived} received, ${status.droppedFrames} frames dropped`,
        ]
      : []),
    ...links.map(
      ({ peer, route, roundTripMs, bytesPerSecond }) =>
        `Link to ${peer}: ${route}, ${roundTripMs ?? '?'} ms, ${bytesPerSecond ?? '?'} bytes a second`,
    ),
    'Log:',
    ...state.log.map(({ atMs, text }) => `${new Date(atMs).toISOString()} ${text}`),
  ];
  return withoutAddresses(lines.join('\n'));
}

export function Help({ state }: { state: DonorState }) {
  return (
    <>
      <KeptBase version={state.phase.kind} />
      <Diagnostics state={state} />
    </>
  );
}

function Diagnostics({ state }: { state: DonorState }) {
  const [isOpen, open] = useState(false);
  const [answer, say] = useState('');
  const { browser } = state.machine;
  const gpuPage = browser && GPU_PAGES[browser];
  // Made while it is looked at only.
  const text = isOpen ? diagnostics(state, navigator.userAgent, wallMs()) : '';
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      say('Copied.');
    } catch {
      say('The browser didn’t allow that. Select the text and copy it.');
    }
  };
  return (
    <details class="card help" onToggle={({ currentTarget }) => open(currentTarget.open)}>
      <summary>Help and diagnostics</summary>
      {isOpen && (
        <>
          {gpuPage && (
            <p>
              To see what this browser knows about your GPU, type <code>{gpuPage}</code> into the address bar.
            </p>
          )}
          <label for="diagnostics">What happened here. It contains no IP addresses.</label>
          <textarea id="diagnostics" readOnly rows={10} value={text} spellcheck={false} />
          <div class="buttons">
            <button type="button" onClick={() => void copy()}>
              Copy diagnostics
            </button>
            <span role="status">{answer}</span>
          </div>
        </>
      )}
    </details>
  );
}

const keptText = (bytes: number): string =>
  `${bytesText(bytes)} of models are kept in this browser, so that they need not be fetched again.`;

/** What this browser keeps of models that adapters are trained beside. `version`: another one looks again. Nothing is shown where nothing was kept. */
function KeptBase({ version }: { readonly version: unknown }) {
  const [pieces, know] = useState<KeptPieces | null>(null);
  const [isCleared, clear] = useState(false);
  useEffect(() => {
    let isOld = false;
    void openPieces(() => navigator.storage.getDirectory()).then((opened) => {
      if (isOld) return;
      know(opened);
      if (opened !== null && opened.bytes() > 0) clear(false);
    });
    return () => {
      isOld = true;
    };
  }, [version]);
  const bytes = pieces?.bytes() ?? 0;
  if (bytes === 0 && !isCleared) return null;
  return (
    <section class="card" aria-labelledby="kept-base">
      <h2 id="kept-base">Kept on this computer</h2>
      <p role="status">{isCleared ? 'Cleared. What is needed is fetched again when you donate.' : keptText(bytes)}</p>
      {!isCleared && (
        <div class="buttons">
          <button type="button" onClick={() => void pieces?.clear().then(() => clear(true))}>
            Clear
          </button>
        </div>
      )}
    </section>
  );
}
