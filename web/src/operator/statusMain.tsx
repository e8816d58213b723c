/** The public page of a run: asks the server every few seconds, while somebody looks. */
import '../page/noEval.ts';
import { signal } from '@preact/signals';
import { render } from 'preact';
import { leaderboardSchema } from '../../../swarm/messages/leaderboard.ts';
import { publicStatusSchema } from '../../../swarm/messages/publicStatus.ts';
import { look, withInvite } from '../page/ask.ts';
import { wallMs } from '../page/clock.ts';
import { type StatusState, StatusView, statusTitle } from './statusView.tsx';

const ASK_MS = 5_000;
/** Places change slowly. */
const BOARD_MS = 30_000;

const invite = new URLSearchParams(location.hash.slice(1)).get('invite');
const shown = signal<StatusState>({ status: null, board: null, problem: null, seenAtMs: null, invite });
let isAsking = false;
let boardAskedAt = -Infinity;

async function ask(): Promise<void> {
  if (isAsking) return;
  isAsking = true;
  const now = performance.now();
  const wantsBoard = now - boardAskedAt >= BOARD_MS;
  if (wantsBoard) boardAskedAt = now;
  // Both before anything is shown: nothing is pushed down the page by what comes later.
  const [status, board] = await Promise.all([
    look(withInvite('/api/status', invite), publicStatusSchema),
    wantsBoard ? look(withInvite('/api/leaderboard', invite), leaderboardSchema) : null,
  ]);
  isAsking = false;
  shown.value = {
    seenAtMs: status.ok ? wallMs() : shown.value.seenAtMs,
    status: status.ok ? status.value : shown.value.status,
    board: board?.ok ? board.value : shown.value.board,
    problem: status.ok ? null : status.reason,
    invite,
  };
  document.title = statusTitle(shown.value);
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
