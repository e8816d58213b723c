/** When something is wrong: what happened here, where the browser says more, and a text to hand on. */
import { useState } from 'preact/hooks';
import { wallMs } from '../page/clock.ts';
import { diagnostics } from './diagnostics.ts';
import type { DonorState } from './state.ts';

const GPU_PAGES = { Chrome: 'chrome://gpu', Edge: 'edge://gpu', Firefox: 'about:support', Safari: null } as const;

export function Help({ state }: { state: DonorState }) {
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
