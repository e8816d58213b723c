/** The page for a frame on another site: asks the server now and then, while somebody looks. */
import '../page/noEval.ts';
import { signal } from '@preact/signals';
import { render } from 'preact';
import { aboutSchema } from '../../../swarm/messages/about.ts';
import { publicStatusSchema } from '../../../swarm/messages/publicStatus.ts';
import { look, withInvite } from '../page/ask.ts';
import { wallMs } from '../page/clock.ts';
import { type EmbedState, EmbedView } from './embedView.tsx';

const ASK_MS = 15_000;

const invite = new URLSearchParams(location.hash.slice(1)).get('invite');
const shown = signal<EmbedState>({ status: null, about: null, problem: null, seenAtMs: null, invite });

async function ask(): Promise<void> {
  if (document.visibilityState === 'hidden') return;
  const before = shown.value;
  const status = await look(withInvite('/api/status', invite), publicStatusSchema);
  const isNew = status.ok && status.value.run !== before.about?.name;
  const about = isNew ? await look(withInvite('/api/run', invite), aboutSchema) : null;
  shown.value = {
    seenAtMs: status.ok ? wallMs() : before.seenAtMs,
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
