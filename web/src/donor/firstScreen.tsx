/** Before the click: what is trained and why, who is here, what it writes today, what it costs, and one button. */
import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import type { About } from '../../../swarm/messages/about.ts';
import { neededMost, type RunWant, runWantsSchema, USUAL_DONOR_BYTES } from '../../../swarm/messages/neededMost.ts';
import type { PublicStatus } from '../../../swarm/messages/publicStatus.ts';
import { ask, withInvite } from '../page/ask.ts';
import { countText, timeText } from '../page/format.ts';
import { askedRun, ofRun } from '../page/ofRun.ts';
import { CountedShoal } from '../page/shoal.tsx';
import { Technical } from '../page/technical.tsx';
import type { DonorActions } from './actions.ts';
import type { FailureReason } from './phase.ts';
import { Presets } from './presets.tsx';
import { RunWords } from './runWords.tsx';
import { failureText, headlineOf } from './sentences.ts';
import { type DonorState, givenTokens, isBarred } from './state.ts';
import { expectedMinuteText } from './work.ts';
import { type Sample, Writing } from './writing.tsx';

interface FirstScreenProps {
  readonly state: DonorState;
  readonly actions: DonorActions;
  readonly status: PublicStatus | null;
  readonly about: About | null;
  readonly sample: Sample;
  readonly invite: string | null;
  /** Why the server does not let this page join; null: it does. */
  readonly refusal: string | null;
  /** The server does not answer. */
  readonly isLost: boolean;
}

/** Which of a site's runs this tab gives to: said only where there are several. Null: where it is needed most. */
const chosen = signal(askedRun);

interface RunChoiceProps {
  readonly invite: string | null;
  /** That the person gives at most; null: nobody said. */
  readonly memoryBytes: number | null;
}

function RunChoice({ invite, memoryBytes }: RunChoiceProps) {
  const [runs, see] = useState<readonly RunWant[]>([]);
  useEffect(() => {
    void ask(withInvite('/api/runs', invite), runWantsSchema).then((answer) => answer.ok && see(answer.value.runs));
  }, [invite]);
  const named = runs.find(({ run }) => run === chosen.value)?.run ?? null;
  const needed = neededMost(runs, memoryBytes ?? USUAL_DONOR_BYTES);
  useEffect(() => {
    if (runs.length > 1) ofRun.value = named ?? needed;
  }, [runs, named, needed]);
  if (runs.length < 2) return null;
  return (
    <label class="run-choice">
      <span>Which run?</span>
      <select
        class="small"
        value={named ?? ''}
        onChange={({ currentTarget }) => {
          chosen.value = currentTarget.value || null;
        }}
      >
        <option value="">Where I am needed most{needed === null ? '' : ` (${needed} now)`}</option>
        {runs.map(({ run, phase, committedSteps, steps }) => (
          <option key={run} value={run}>
            {run}: {phase === 'finished' ? 'finished' : `${countText(committedSteps)} of ${countText(steps)} steps`}
          </option>
        ))}
      </select>
    </label>
  );
}

export function FirstScreen(props: FirstScreenProps) {
  const { state, actions, status, about, sample, invite, refusal, isLost } = props;
  const { phase, machine, limits } = state;
  const isBroken = phase.kind === 'failed' && BROKEN.has(phase.reason);
  const barred = isBarred(state);
  const isOver = status?.phase === 'finished';
  return (
    <section class="hero">
      <CountedShoal status={status} about={about} />
      <h1 tabIndex={-1}>{isOver ? 'This model is finished' : 'Help train a language model, right in this tab'}</h1>
      {/* Above all that an operator may write: why one cannot donate here is in sight in every window. */}
      <Outcome state={state} isOver={isOver} />
      <RunChoice invite={invite} memoryBytes={limits.memoryBytes} />
      <RunWords
        status={status}
        about={about}
        isShut={refusal !== null || machine.gpu.kind === 'missing'}
        isLost={isLost}
      />
      {refusal !== null && (phase.kind !== 'failed' || phase.reason === 'blocked') && (
        <p class="notice bad" role="status">
          <span aria-hidden="true">✕ </span>
          <strong>{refusal}</strong>
        </p>
      )}
      {!isOver && <OtherTabs count={state.otherTabs} />}
      {barred && machine.gpu.kind !== 'missing' && (
        <div class="notice">
          <p>This looks like a phone. Training makes it hot and empties the battery, so phones are off by default.</p>
          <button type="button" onClick={() => actions.prefer({ ...state.preferences, phone: true })}>
            Allow this phone
          </button>
        </div>
      )}
      {!isOver && (
        <>
          <Presets speed={limits.speed} onChange={(speed) => actions.limit({ ...limits, speed })} />
          <button
            type="button"
            class="primary large"
            disabled={isBroken || barred || refusal !== null || machine.gpu.kind === 'missing'}
            onClick={() => actions.donate()}
          >
            Donate this GPU
          </button>
          <p class="soft small cost">{costText(status)}</p>
        </>
      )}
      <Writing sample={sample} steps={status?.steps ?? 0} />
    </section>
  );
}

/** A click changes nothing: another address, another browser, or this page loaded anew. */
const BROKEN: ReadonlySet<FailureReason> = new Set(['insecure', 'noWebGpu', 'noWebRtc', 'wrongProtocol']);

function costText(status: PublicStatus | null): string {
  const traffic = status?.minuteTraffic == null ? 'some internet traffic' : expectedMinuteText(status.minuteTraffic);
  return `It costs you electricity, like a game does, and ${traffic}. Nothing is installed, and none of your files are read. Stay as long as you like: pause or close the tab and it stops.`;
}

/**
 * How the last visit of this tab to the swarm ended; always there, so that screen readers hear it change. That its address is
 * blocked the server says, for as long as it is.
 */
function Outcome({ state, isOver }: { state: DonorState; isOver: boolean }) {
  const { phase } = state;
  const tokens = givenTokens(state);
  return (
    <div role="status" class="outcome">
      {phase.kind === 'idle' && state.incident && (
        <div class="notice">
          {timeText(state.incident.atMs)}: {state.incident.text}
          <Technical detail={state.incident.detail} />
        </div>
      )}
      {phase.kind === 'failed' && phase.reason !== 'blocked' && !isSaidBelow(state) && (
        <FailureNotice reason={phase.reason} detail={phase.detail} />
      )}
      {isSaidBelow(state) && !isOver && (
        <div class="notice bad">
          <p>
            <span aria-hidden="true">✕ </span>
            <strong>{failureText(phase.kind === 'failed' ? phase.reason : 'noAdapter').what}</strong> What you can do
            stands below, under “Your GPU”.
          </p>
        </div>
      )}
      {phase.kind === 'left' && (
        <div class="notice">
          <p>
            {headlineOf(state).sentence}
            {tokens > 0 && ` You contributed ${countText(tokens)} tokens. Thank you!`}
          </p>
        </div>
      )}
    </div>
  );
}

/** The card of this browser's GPU says what to do in this browser; beside the button that is off it is said why. */
const isSaidBelow = ({ phase, machine }: DonorState): boolean =>
  machine.gpu.kind === 'missing' &&
  (phase.kind === 'failed' ? ['noWebGpu', 'noAdapter'].includes(phase.reason) : machine.gpu.why === 'noAdapter');

export function OtherTabs({ count }: { count: number }) {
  if (count === 0) return null;
  return (
    <p class="notice" role="status">
      <span aria-hidden="true">▲ </span>
      {count === 1 ? 'Another tab' : `${count} other tabs`} of this browser already {count === 1 ? 'donates' : 'donate'}{' '}
      this GPU. A second one adds next to nothing.
    </p>
  );
}

function FailureNotice({ reason, detail }: { reason: FailureReason; detail: string }) {
  const { what, advice } = failureText(reason);
  return (
    <div class="notice bad">
      <p>
        <span aria-hidden="true">✕ </span>
        <strong>{what}</strong> {advice}
      </p>
      {/* A refusal's sentence says it all; for whoever runs the server the rest stands in the log. */}
      {advice && <Technical detail={detail} />}
    </div>
  );
}
