/** The page for a frame on another site: asks the server now and then, while somebody looks. */
import '../page/noEval.ts';
import { signal } from '@preact/signals';
import { render } from 'preact';
import { aboutSchema } from '../../../swarm/messages/about.ts';
import { publicStatusSchema } from '../../../swarm/messages/publicStatus.ts';
import { withInvite } from '../page/ask.ts';
import { read } from './api.ts';
import { type EmbedState, EmbedView } from './embedView.tsx';

const ASK_MS = 15_000;

const invite = new URLSearchParams(location.hash.slice(1)).get('invite');
const shown = signal<EmbedState>({ status: null, about: null, problem: null, invite });

async function ask(): Promise<void> {
  if (document.visibilityState === 'hidden') return;
  const before = shown.value;
  const status = await read(withInvite('/api/status', invite), publicStatusSchema);
  const isNew = status.ok && status.value.run !== before.about?.name;
  const about = isNew ? await read(withInvite('/api/run', invite), aboutSchema) : null;
  shown.value = {
    status: status.ok ? status.value : before.status,
    about: about?.ok ? about.value : before.about,
    problem: status.ok ? null : status.reason,
    invite,
  };
}

function Page() {
  return <EmbedView {...shown.value} />;
}

render(<Page />, document.body.querySelector('#page') ?? document.body);
void ask();
setInterval(() => void ask(), ASK_MS);
document.addEventListener('visibilitychange', () => void ask());
