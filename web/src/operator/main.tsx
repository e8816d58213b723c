/** The operator's page: a link with a token logs in at once, otherwise the cookie or the form does. */
import '../page/noEval.ts';
import { render } from 'preact';
import { Live } from '../page/live.ts';
import { handOver } from './signInWindow.ts';
import { INITIAL_STATE, nextState, type OperatorState } from './state.ts';
import { OperatorView } from './view.tsx';
import { Watch } from './watch.ts';

/** What the operator waits for; the numbers of a run may come a moment later. */
function isUrgent(before: OperatorState, after: OperatorState): boolean {
  return (
    before.connection !== after.connection ||
    before.asked !== after.asked ||
    before.answer !== after.answer ||
    before.login !== after.login ||
    before.section !== after.section ||
    before.changingTo !== after.changingTo ||
    before.snapshot?.phase !== after.snapshot?.phase
  );
}

const live = new Live(INITIAL_STATE, nextState, isUrgent);
const watch = new Watch(live);

function Page() {
  return <OperatorView state={live.shown.value} actions={watch} />;
}

live.shown.subscribe(({ connection, snapshot }) => {
  const { dataset } = document.body;
  dataset.connection = connection;
  dataset.phase = snapshot?.phase ?? '';
  dataset.donors = String(snapshot?.donors.length ?? 0);
});
render(<Page />, document.body.querySelector('#page') ?? document.body);

/** A link with a token logs in wherever it is opened, also in a tab that shows this page already. True: it was one. */
function follow(): boolean {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  // Out of the address bar and the history first: it is a secret until it is used.
  if (token !== null) history.replaceState(null, '', location.pathname + location.search);
  live.dispatch({ type: 'sectionChosen', hash: location.hash });
  if (token !== null) void enter(token);
  return token !== null;
}

async function enter(token: string): Promise<void> {
  const isFirst = live.current.connection === 'connecting';
  await watch.login(token);
  if (isFirst && live.current.login.problem !== null) void watch.open();
}

if (handOver()) document.body.textContent = 'This window has done its work: close it.';
else {
  addEventListener('hashchange', follow);
  if (!follow()) void watch.open();
}
