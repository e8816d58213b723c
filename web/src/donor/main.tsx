/** The donor's page: what this browser can do, the state, the view, and nothing that starts by itself. */
import { render } from 'preact';
import { limitsOfFragment, NO_LIMITS } from '../../../swarm/limits.ts';
import { Live } from '../page/live.ts';
import { Donor } from './donor.ts';
import { Keeper } from './keeper.ts';
import { logged } from './log.ts';
import { seeMachine } from './machine.ts';
import { type DonorEvent, type DonorState, type FailureReason, INITIAL_STATE, mayDonate, nextState } from './state.ts';
import { Tabs } from './tabs.ts';
import { DonorView } from './view.tsx';
import { WakeLock } from './wakeLock.ts';

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

const next = (state: DonorState, event: DonorEvent): DonorState => logged(state, nextState(state, event), Date.now());

/** What a person has just done or waits for. */
const isUrgent = (before: DonorState, after: DonorState): boolean =>
  (['phase', 'pending', 'rest', 'limits', 'preferences', 'machine', 'otherTabs'] as const).some(
    (part) => before[part] !== after[part],
  );

const live = new Live(INITIAL_STATE, next, isUrgent);
const donor = new Donor(live, invite);
const keeper = new Keeper((credit) => live.dispatch({ type: 'creditRead', credit }));
const wakeLock = new WakeLock();

const { limits, preferences } = keeper.settings;
const linked = limitsOfFragment(fragment);
live.dispatch({ type: 'limited', limits: linked === NO_LIMITS ? limits : linked });
live.dispatch({ type: 'preferred', preferences });
live.dispatch({ type: 'creditRead', credit: keeper.credit });
if (keeper.minuteBytes !== null) live.dispatch({ type: 'trafficRead', minuteBytes: keeper.minuteBytes });
live.dispatch({ type: 'visibilityChanged', hidden: document.visibilityState === 'hidden' });
const reason = missing();
if (reason) live.dispatch({ type: 'failed', reason, detail: '' });
void seeMachine(navigator, isSecureContext).then((machine) => live.dispatch({ type: 'machineSeen', machine }));

// Both need https; where there is none, nothing can be donated either.
const tabs = isSecureContext ? new Tabs((count) => live.dispatch({ type: 'otherTabsSeen', count })) : null;

let before = live.current;
live.shown.subscribe((state) => {
  mark(state);
  keeper.see(before, state);
  before = state;
  tabs?.donate(!mayDonate(state));
  const isAtWork = state.phase.kind === 'joined' || state.phase.kind === 'computing';
  wakeLock.want(state.preferences.keepAwake && isAtWork);
});
document.addEventListener('visibilitychange', () => {
  const isVisible = document.visibilityState === 'visible';
  donor.visible(isVisible);
  if (!isVisible) return;
  void wakeLock.renew();
  void tabs?.count();
});

function Page() {
  return <DonorView state={live.shown.value} actions={donor} forgetCredit={() => keeper.forgetCredit()} />;
}

render(<Page />, document.body.querySelector('#page') ?? document.body);
