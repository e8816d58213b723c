/** The card of a tab that takes part: what it does now, how to stop it, its part and the run's. */
import type { LinkReport } from '../../../swarm/messages/profile.ts';
import type { PublicStatus } from '../../../swarm/messages/publicStatus.ts';
import { bytesText, counted, layersText } from '../../../swarm/quantityText.ts';
import type { DonorStatus } from '../executor/protocol.ts';
import {
  adapterText,
  countText,
  innerStepsText,
  lossText,
  millisecondsText,
  NOTHING,
  percentText,
  rateText,
  timeText,
  trafficText,
} from '../page/format.ts';
import { Stat, StepProgress } from '../page/parts.tsx';
import { type Fish, Shoal } from '../page/shoal.tsx';
import { Technical } from '../page/technical.tsx';
import { UNSEEN_LOSS, unseenNote } from '../page/unseenLoss.ts';
import type { DonorActions } from './actions.ts';
import { SoftwareNotice } from './gpuCard.tsx';
import { Line } from './line.tsx';
import { computeOfTab, type DonorState, givenTokens, isHeld, ownEntry } from './state.ts';
import { StepTimeline } from './stepTimeline.tsx';
import { StopControls } from './stopControls.tsx';
import { minuteText, phaseWords } from './work.ts';

interface RunningProps {
  readonly state: DonorState;
  readonly actions: DonorActions;
  /** The run as its server tells anyone; null: not yet. */
  readonly told: PublicStatus | null;
  /** What is shown of the run is what was last seen. */
  readonly isOld: boolean;
}

export function Running({ state, actions, told, isOld }: RunningProps) {
  const { snapshot, adapter, run, status, incident, eased } = state;
  const isOver = (snapshot ?? told)?.phase === 'finished';
  const isAtWork = state.phase.kind === 'computing' && !isHeld(state) && partOf(state).stages.length > 0;
  const steps = snapshot?.steps ?? run?.steps ?? told?.steps ?? null;
  // Their room is there before they are.
  const isComing = state.phase.kind === 'starting' || state.phase.kind === 'joined';
  return (
    <section class={`card live${isOld ? ' stale-card' : ''}`} aria-labelledby="state">
      <h1 id="state" tabIndex={-1}>
        {run?.name ?? told?.run ?? 'Your GPU'}
      </h1>
      {(steps !== null || isComing) && (
        <StepProgress
          done={(snapshot ?? told)?.committedSteps ?? null}
          steps={steps ?? 0}
          time={(snapshot ?? told)?.time}
          note={isOld ? LAST_SEEN : donorsNote(state)}
        />
      )}
      {(snapshot || isComing) && <DonorsShoal state={state} isOld={isOld} />}
      <StopControls state={state} actions={actions} />
      {incident && !isOver && (
        <div class="soft small incident">
          {timeText(incident.atMs)}: {incident.text}
          <Technical detail={incident.detail} />
        </div>
      )}
      {eased < 1 && isAtWork && (
        <p class="notice">
          <span aria-hidden="true">▲ </span>
          This computer feels slow, so this tab takes {percentText(eased)} of what you give, and more again when that is
          over. You can switch this off under Limits.
        </p>
      )}
      <h2 class="hidden">So far</h2>
      {(snapshot || status || isComing || told) && <RunNumbers state={state} told={told} isOld={isOld} />}
      {adapter?.software && <SoftwareNotice />}
      <details class="figures">
        <summary>Details</summary>
        <h2>This tab</h2>
        <OwnNumbers state={state} />
        {isAtWork && status?.lastStep && <StepTimeline state={state} trace={status.lastStep} />}
        {isAtWork && <Line state={state} />}
        {isAtWork && <Ways state={state} />}
        <p class="soft small adapter">{adapter ? `Your GPU: ${adapterText(adapter)}` : 'No GPU is open now.'}</p>
      </details>
    </section>
  );
}

const LAST_SEEN = 'when last seen';

/** Who computes, and who else is here. */
function donorsNote({ snapshot }: DonorState): string {
  if (snapshot === null) return '';
  const { donors, phase } = snapshot;
  const training = donors.filter(({ state }) => state === 'computing').length;
  if (donors.length === 0 || phase === 'finished') return '';
  return training === donors.length
    ? `${counted(training, 'donor')} training`
    : `${training} of ${counted(donors.length, 'donor')} training`;
}

/** In the plan that is prepared or done; the worker knows it a moment before the snapshot does. */
function partOf(state: DonorState): Pick<DonorStatus, 'stages' | 'stageCount'> {
  const { phase, snapshot, status } = state;
  const isPlanned = phase.kind === 'joined' || phase.kind === 'computing';
  const isHeld = snapshot?.phase === 'paused';
  if (!isPlanned || isHeld) return { stages: [], stageCount: 0 };
  if (status && status.stageCount > 0) return status;
  const all = (snapshot?.donors ?? []).flatMap(({ stages }) => stages);
  return { stages: ownEntry(state)?.stages ?? [], stageCount: Math.max(0, ...all.map(({ stage }) => stage + 1)) };
}

function OwnNumbers({ state }: { state: DonorState }) {
  const { status } = state;
  const compute = computeOfTab(state);
  const { stages, stageCount } = partOf(state);
  const [first] = stages;
  const place = stages.length === 1 && first ? `${first.stage + 1} of ${stageCount}` : stages.length;
  // What was measured of earlier work says nothing of a tab that rests.
  const { done, all } = (stages.length > 0 && status?.microBatches) || { done: 0, all: 0 };
  const phase = stages.length > 0 && status ? phaseWords(state, status) : { word: NOTHING, note: undefined };
  const layers = stages.map((stage) => layersText(stage.layers)).join(', ');
  const island = stages.length > 0 ? islandOf(state) : null;
  // Who rests by choice, or has no place, sees what this tab moved, and no row of dashes.
  const rests = ['paused', 'spare', 'postponed'].includes(state.phase.kind) || isHeld(state);
  return (
    <dl class="stats">
      {!rests && (
        <>
          <Stat
            label={stages.length > 1 ? 'Your stages' : 'Your stage'}
            value={stages.length === 0 ? NOTHING : String(place)}
            note={compute && stages.length > 0 ? `${layers}, ${compute}` : layers}
          />
          {island && <Stat label="Island" value={island.value} note={island.note} />}
          <Stat label="Now" value={phase.word} note={phase.note} />
          <Stat
            label="Micro-batches"
            value={all > 0 ? `${done} of ${all}` : NOTHING}
            note={status?.step != null && all > 0 ? `of step ${status.step + 1}` : undefined}
          />
          <Stat
            label="GPU busy"
            value={percentText(stages.length > 0 && status ? status.busyShare : null)}
            note="measured, 1 min"
          />
          <Stat
            label="GPU memory"
            value={status && status.gpuMemoryBytes > 0 ? bytesText(status.gpuMemoryBytes) : NOTHING}
            note="used here"
          />
          {status !== null && status.answeredRows > 0 && (
            <Stat label="Answers" value={countText(status.answeredRows)} note="tokens, in idle moments" />
          )}
          <Stat
            label="Delay"
            value={millisecondsText(stages.length > 0 ? medianRoundTrip(state.links) : null)}
            note="to the others"
          />
        </>
      )}
      {(status || !rests) && (
        <>
          <Stat label="Sent" value={status ? trafficText(status.bytesSent) : NOTHING} note="since it started" />
          <Stat label="Received" value={status ? trafficText(status.bytesReceived) : NOTHING} note="since it started" />
        </>
      )}
      <Stat label="Today" value={trafficText(state.today.sentBytes + state.today.receivedBytes)} note="both ways" />
    </dl>
  );
}

/** Which one this tab's group computes now, and how far it is; null: the run has none. */
function islandOf({ snapshot, me }: DonorState): { readonly value: string; readonly note: string } | null {
  const group = snapshot?.groups?.find(({ donors }) => me !== null && donors.includes(me));
  if (!snapshot?.groups || !group) return null;
  const { islands, active, round } = group;
  const [only, ...others] = islands;
  const shown = islands.find(({ number }) => number === active) ?? (others.length === 0 ? only : undefined);
  const how = shown?.number === active && shown ? innerStepsText(shown) : 'awaits the meeting';
  // Those that have ended leave their numbers to nobody: there may be a fourth one of three.
  return { value: shown ? String(shown.number + 1) : NOTHING, note: `round ${round + 1}, ${how}` };
}

function medianRoundTrip(links: readonly LinkReport[]): number | null {
  const all = links.flatMap(({ roundTripMs }) => roundTripMs ?? []).sort((a, b) => a - b);
  return all[Math.floor(all.length / 2)] ?? null;
}

function RunNumbers({ state, told, isOld }: Pick<RunningProps, 'state' | 'told' | 'isOld'>) {
  const { run } = state;
  // A tab that rests since it was loaded hears nothing but what anyone may know.
  const snapshot = state.snapshot ?? told;
  const tokens = givenTokens(state);
  const runTokens = (snapshot?.committedSteps ?? 0) * (run?.stepTargets ?? 0);
  const share = runTokens > 0 ? Math.min(1, tokens / runTokens) : null;
  const unseen = snapshot?.evaluationLoss ?? null;
  // What is told of steps is asked for now and then: the newest loss may not be in it yet.
  const unseenAt = told?.evaluations.findLast(([, loss]) => loss === unseen)?.[0];
  return (
    <dl class="stats four">
      <Stat label="Loss" value={lossText(snapshot?.loss ?? null)} note={isOld ? LAST_SEEN : 'lower is better'} />
      <Stat label={UNSEEN_LOSS} value={lossText(unseen)} note={unseenNote(unseen, unseenAt)} />
      <Stat
        label="All together"
        value={rateText(isOld ? null : (snapshot?.tokensPerSecond ?? null))}
        note="tokens a second"
      />
      <Stat
        label="You contributed"
        value={countText(tokens)}
        note={share === null ? 'tokens' : `tokens, ${percentText(share)} of all`}
      />
    </dl>
  );
}

/** How this tab reaches the others, and what that moves: what is relayed costs the server's line, and time. */
function Ways({ state: { links, minuteBytes, preferences } }: { state: DonorState }) {
  if (links.length === 0) return null;
  const relayed = links.filter(({ route }) => route === 'relayed').length;
  const direct = links.length - relayed;
  const because = preferences.relayOnly
    ? ', because you hide your IP address'
    : ', which are slower. This page keeps trying for a direct one';
  return (
    <p class="soft small ways">
      Your connections: {direct} direct, {relayed} through the server
      {relayed > 0 && because}.{minuteBytes !== null && ` Traffic: ${minuteText(minuteBytes)}.`}
    </p>
  );
}

/** The donors of the run as fish; `isOld`: they are those who were last seen. */
function DonorsShoal({ state, isOld }: Pick<RunningProps, 'state' | 'isOld'>) {
  const { snapshot, me } = state;
  const fish = (snapshot?.donors ?? []).map(
    ({ peer, state: own }): Fish => ({
      ...{ id: peer, isTraining: own === 'computing', isComing: own === 'joining', isOwn: peer === me },
    }),
  );
  const isTraining = !isOld && fish.some((each) => each.isOwn && each.isTraining);
  return (
    <div class="waters">
      <Shoal fish={fish} steps={snapshot?.committedSteps ?? 0} stepsPerSecond={null} />
      <p class="soft small waters-words">
        {isTraining && `Yours, ${me}, swims in the ring.`}
        {state.phase.kind === 'spare' && `Yours, ${me}, waits at the edge, in the ring.`}
      </p>
    </div>
  );
}
