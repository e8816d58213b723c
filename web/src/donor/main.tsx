/** The donor's page: what this browser can do, the state, the view, and nothing that starts by itself. */
import { render } from 'preact';
import { limitsOfFragment } from '../../../swarm/limits.ts';
import { Live } from '../page/live.ts';
import { Donor } from './donor.ts';
import { type DonorState, type FailureReason, INITIAL_STATE, nextState } from './state.ts';
import { DonorView } from './view.tsx';

/** What is missing here whatever a person clicks. */
function missing(): FailureReason | null {
  if (!isSecureContext) return 'insecure';
  if (!('gpu' in navigator)) return 'noWebGpu';
  if (typeof RTCPeerConnection === 'undefined') return 'noWebRtc';
  return null;
}

/** `#invite=…&speed=0.5` in the link; a fragment, because it is not sent to anyone nor logged. */
const fragment = location.hash.slice(1);
const invite = new URLSearchParams(fragment).get('invite');

/** For whoever drives this page from outside; a person reads the words. */
function mark({ phase, me }: DonorState): void {
  const { dataset } = document.body;
  dataset.state = phase.kind;
  if (me !== null) dataset.peer = me;
  if ('reason' in phase) dataset.reason = phase.reason;
  else if (phase.kind === 'spare' && phase.finished) dataset.reason = 'finished';
  else delete dataset.reason;
}

const live = new Live(INITIAL_STATE, nextState, (before, after) => {
  return before.phase !== after.phase || before.pending !== after.pending;
});
const donor = new Donor(live, invite);

function Page() {
  return <DonorView state={live.shown.value} actions={donor} />;
}

live.dispatch({ type: 'limited', limits: limitsOfFragment(fragment) });
live.shown.subscribe(mark);
const reason = missing();
if (reason) live.dispatch({ type: 'failed', reason, detail: '' });
render(<Page />, document.body.querySelector('#page') ?? document.body);
