/** The donor's page: what this browser can do, the state, the view, and nothing that starts by itself. */
import '../page/noEval.ts';
import { render } from 'preact';
import { limitsOfFragment, NO_LIMITS } from '../../../swarm/limits.ts';
import { thisMoment, wallMs } from '../page/clock.ts';
import { Live } from '../page/live.ts';
import { ofRun } from '../page/ofRun.ts';
import { iconOf } from '../page/parts.tsx';
import type { DonorActions, PageActions } from './actions.ts';
import { Donor } from './donor.ts';
import { type DonorEvent, nextState } from './events.ts';
import { FrameWatch } from './frameGuard.ts';
import { remembered } from './history.ts';
import { ended, reloaded } from './incidents.ts';
import { Keeper } from './keeper.ts';
import { seeMachine } from './machine.ts';
import { begun, over } from './nextRun.ts';
import { type FailureReason, isMember, mayDonate } from './phase.ts';
import { lastDonation, markDonating } from './reload.ts';
import { askAbout } from './runCard.tsx';
import { headlineOf } from './sentences.ts';
import { SpeedTest } from './speedTest.ts';
import { type DonorState, INITIAL_STATE } from './state.ts';
import { WakeLock, Watcher } from './surroundings.ts';
import { Tabs } from './tabs.ts';
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
const linkWords = new URLSearchParams(fragment);
const entry = { invite: linkWords.get('invite'), own: linkWords.get('own') };

/** For whoever drives this page from outside; a person reads the words. */
function mark({ phase, me }: DonorState): void {
  const { dataset } = document.body;
  dataset.state = phase.kind;
  if (me !== null) dataset.peer = me;
  if ('reason' in phase) dataset.reason = phase.reason;
  else if (phase.kind === 'spare' && phase.finished) dataset.reason = 'finished';
  else delete dataset.reason;
}

/** What one sees of a tab that is not looked at: whether it works, and when it wants something. */
function titleOf(state: DonorState): string {
  if (begun.value !== null) return `● ${begun.value} has begun · Shoal`;
  if (state.phase.kind === 'idle' && over.value !== null) return `✓ Finished · ${over.value}`;
  if (state.phase.kind === 'idle') return 'Shoal: help train a language model';
  const { glyph, word } = headlineOf(state);
  return `${glyph} ${word} · ${state.run?.name ?? 'Shoal'}`;
}

const plainIcon = document.querySelector('link[rel="icon"]')?.getAttribute('href') ?? null;

/** Its colour is the state's, for who has many tabs. */
function setIcon(state: DonorState): void {
  const icon = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
  const href = mayDonate(state) ? plainIcon : iconOf(headlineOf(state).tone);
  if (icon && href !== null && icon.getAttribute('href') !== href) icon.setAttribute('href', href);
}

const next = (state: DonorState, event: DonorEvent): DonorState =>
  remembered(state, nextState(state, event), thisMoment());

/** What a person has just done or waits for. */
const isUrgent = (before: DonorState, after: DonorState): boolean =>
  before.trial.kind !== after.trial.kind ||
  (['phase', 'pending', 'rest', 'limits', 'preferences', 'machine', 'otherTabs'] as const).some(
    (part) => before[part] !== after[part],
  );

const live = new Live(INITIAL_STATE, next, isUrgent);
const donor = new Donor(live, entry);
const keeper = new Keeper(
  (credit) => live.dispatch({ type: 'learned', now: { credit } }),
  (today) => live.dispatch({ type: 'learned', now: { today } }),
);
const speedTest = new SpeedTest((trial) => live.dispatch({ type: 'learned', now: { trial } }));
const frames = new FrameWatch((factor) => donor.ease(factor));
const wakeLock = new WakeLock();

const { limits, preferences } = keeper.settings;
const linked = limitsOfFragment(fragment);
// The server's own donors give what the server says.
const isTold = linked !== NO_LIMITS || entry.own !== null;
live.dispatch({ type: 'learned', now: { limits: isTold ? linked : limits } });
live.dispatch({ type: 'learned', now: { preferences } });
live.dispatch({ type: 'learned', now: { credit: keeper.credit } });
const reason = missing();
if (reason) live.dispatch({ type: 'failed', reason, detail: '' });
void seeMachine(navigator, isSecureContext).then((machine) => live.dispatch({ type: 'learned', now: { machine } }));

// Both need https; where there is none, nothing can be donated either.
const tabs = isSecureContext ? new Tabs((otherTabs) => live.dispatch({ type: 'learned', now: { otherTabs } })) : null;

let before = live.current;
live.shown.subscribe((state) => {
  mark(state);
  document.title = titleOf(state);
  setIcon(state);
  keeper.see(before, state);
  before = state;
  // Where its connection breaks it comes back to the run that it is in.
  if (isMember(state) && state.run !== null) ofRun.value = state.run.name;
  // Who rests uses no GPU.
  tabs?.donate(!mayDonate(state) && state.phase.kind !== 'paused');
  const { preferences, surroundings, phase } = state;
  const isAtWork = phase.kind === 'joined' || phase.kind === 'computing';
  wakeLock.want(preferences.keepAwake && isAtWork && surroundings.power !== 'battery');
  // Nobody looks at a page that a program drives.
  frames.watch(preferences.smooth && phase.kind === 'computing' && !navigator.webdriver);
});
for (const news of [begun, over])
  news.subscribe(() => {
    document.title = titleOf(live.current);
  });
const watcher = new Watcher((surroundings) => donor.see(surroundings, keeper.usedOn(surroundings.day)));
document.addEventListener('visibilitychange', () => {
  frames.away();
  if (document.visibilityState !== 'visible') return;
  void wakeLock.renew();
});

const actions: DonorActions = {
  donate: () => {
    speedTest.close();
    begun.value = null;
    donor.donate();
    // What takes the button's place begins at the top.
    scrollTo({ top: 0 });
  },
  ask: (what) => donor.ask(what),
  pauseNow: () => donor.pauseNow(),
  snooze: (milliseconds) => donor.snooze(milliseconds),
  leaveNow: () => donor.leaveNow(),
  askAgain: () => donor.askAgain(),
  limit: (chosen) => donor.limit(chosen),
  prefer: (chosen) => {
    if (chosen.onlyIdle) void watcher.watchPerson();
    donor.prefer(chosen);
  },
  download: () => donor.download(),
  place: () => donor.place(),
};
const page: PageActions = {
  forgetCredit: () => keeper.forgetCredit(),
  trySpeed: () => void speedTest.run(askAbout(entry.invite), live.current.limits),
  stopTrial: () => speedTest.stop(),
};

function Page() {
  return <DonorView state={live.shown.value} actions={actions} page={page} invite={entry.invite} />;
}

render(<Page />, document.body.querySelector('#page') ?? document.body);

// A reload, or the way back to this page, is no new visit: what was consented to goes on, and the page says so.
addEventListener('pagehide', () => {
  const { rest, seen } = live.current;
  markDonating(mayDonate(live.current) ? null : { atMs: wallMs(), rest, seen });
  donor.standStill();
});
document.addEventListener('freeze', () => donor.standStill());
const last = lastDonation(wallMs());
if (last?.goesOn && mayDonate(live.current)) {
  if (last.rest) donor.restOn(last.rest);
  else {
    donor.donate();
    live.dispatch({ type: 'learned', now: { incident: reloaded(wallMs()) } });
  }
  live.dispatch({ type: 'learned', now: { seen: last.seen } });
} else if (last) live.dispatch({ type: 'learned', now: { incident: ended(last.untilMs) } });
if (live.current.preferences.onlyIdle) void watcher.watchPerson();
