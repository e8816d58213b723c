/** The public page of a run: asks the server every few seconds, while somebody looks. */
import { signal } from '@preact/signals';
import { render } from 'preact';
import { publicStatusSchema } from '../../../swarm/publicStatus.ts';
import { read } from './api.ts';
import { type StatusState, StatusView } from './statusView.tsx';

const ASK_MS = 5_000;

const shown = signal<StatusState>({ status: null, problem: null });

async function ask(): Promise<void> {
  const answer = await read('/api/status', publicStatusSchema);
  shown.value = answer.ok
    ? { status: answer.value, problem: null }
    : { status: shown.value.status, problem: answer.reason };
}

function Page() {
  return <StatusView {...shown.value} />;
}

render(<Page />, document.body.querySelector('#page') ?? document.body);
void ask();
setInterval(() => {
  if (document.visibilityState === 'visible') void ask();
}, ASK_MS);
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') void ask();
});
