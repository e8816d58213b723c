/**
 * The run that a donor gives to, before and after the click: how far it is, how its loss fell, what its newest saved
 * state writes, and where to get it. Asks the server three times a minute, while somebody looks.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Result } from '../../../swarm/base.ts';
import { type About, aboutSchema, type PublicSample, publicSampleSchema } from '../../../swarm/messages/about.ts';
import { type PublicStatus, publicStatusSchema } from '../../../swarm/messages/publicStatus.ts';
import { REFUSAL_SENTENCES } from '../../../swarm/messages/refusals.ts';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import { bytesText, counted } from '../../../swarm/quantityText.ts';
import { ask, invitedLink, look as lookAt, UNREACHABLE, withInvite } from '../page/ask.ts';
import { aboutText, countText, lossText } from '../page/format.ts';
import { ofRun } from '../page/ofRun.ts';
import { Press, StepProgress } from '../page/parts.tsx';
import { awaitedAfter, seeStatus } from './nextRun.ts';
import type { Sample } from './writing.tsx';

const ASK_MS = 20_000;

/** With the invitation, where the link had one. */
export const askAbout = (invite: string | null): Promise<Result<About>> =>
  ask(withInvite('/api/run', invite), aboutSchema);

interface ToldStatus {
  readonly status: PublicStatus | null;
  /** Why this page may not join, or not even know it, as of a run by invitation; null: it may. */
  readonly refusal: string | null;
  /** The server has answered, or does not. */
  readonly isAsked: boolean;
  /** It did not when it was asked last: all that is told is old. */
  readonly isLost: boolean;
}

/**
 * As the server last told it; null: not yet. It is asked anew when this tab begins or ends to take part, and when the run
 * gets into another state (`phase`, with the run that is put next), so that what is paused or finished shows its last step.
 * `isAwaited`: this tab waits for the next run, also while it is hidden.
 */
export function useStatus(invite: string | null, isRunning: boolean, phase: string, isAwaited: boolean): ToldStatus {
  const [status, show] = useState<PublicStatus | null>(null);
  const run = ofRun.value;
  const [refusal, refuse] = useState<string | null>(null);
  const [isAsked, answered] = useState(false);
  const [isLost, lose] = useState(false);
  useEffect(() => {
    const look = async (): Promise<void> => {
      if (document.visibilityState === 'hidden' && awaitedAfter.value === null && !isAwaited) return;
      const answer = await lookAt(withInvite('/api/status', invite), publicStatusSchema);
      answered(true);
      const isUnreached = !answer.ok && answer.reason === UNREACHABLE;
      lose(isUnreached);
      const unread = answer.ok || isUnreached ? null : answer.reason;
      refuse(answer.ok && answer.value.isBlocked ? REFUSAL_SENTENCES.blocked : unread);
      if (!answer.ok) return;
      seeStatus(answer.value);
      show(answer.value);
    };
    const lookAgain = (): void => void look();
    lookAgain();
    const timer = setInterval(lookAgain, ASK_MS);
    document.addEventListener('visibilitychange', lookAgain);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', lookAgain);
    };
  }, [invite, isRunning, phase, run, isAwaited]);
  return { status, refusal, isAsked, isLost };
}

interface ToldAbout {
  readonly about: About | null;
  readonly isAsked: boolean;
}

/** Asked once, and again when the server has another run (`run`, as far as it is known). */
export function useAbout(invite: string | null, run: string | null): ToldAbout {
  const [told, show] = useState<ToldAbout>({ about: null, isAsked: false });
  const { about, isAsked } = told;
  // Effects run later than what they were made in: whether there is an answer stands here.
  const asked = useRef({ isUnderWay: false, run: '' });
  useEffect(() => {
    const { current } = asked;
    if (current.isUnderWay || (run === null ? isAsked : current.run === run)) return;
    current.isUnderWay = true;
    void askAbout(invite).then((answer) => {
      asked.current = { isUnderWay: false, run: answer.ok ? answer.value.name : current.run };
      show(({ about }) => ({ about: answer.ok ? answer.value : about, isAsked: true }));
    });
  }, [invite, run, about?.name, isAsked]);
  return told;
}

/** The first screen stands after so long, whatever has not come by then. */
const SETTLING_MS = 800;

/** What the first screen is made of has come, or takes too long: from here on it keeps its place. */
export function useSettled(isWhole: boolean): boolean {
  const [isSettled, settle] = useState(false);
  useEffect(() => {
    if (isSettled) return;
    if (isWhole) return settle(true);
    const timer = setTimeout(() => settle(true), SETTLING_MS);
    return () => clearTimeout(timer);
  }, [isWhole, isSettled]);
  return isSettled;
}

/** Who presses the button at once costs the server no sample. */
const SAMPLE_DELAY_MS = 1_500;

/** What the newest saved state writes, while somebody reads the first screen. */
export function useSample(invite: string | null, isWanted: boolean, run: string, checkpointStep: number): Sample {
  const [written, show] = useState<PublicSample>(null);
  const [isRefused, refuse] = useState(false);
  const isSaved = checkpointStep > 0;
  useEffect(() => {
    if (!isWanted || !isSaved) return;
    const timer = setTimeout(async () => {
      const written = await ask(withInvite('/api/sample', invite), publicSampleSchema);
      if (written.ok) show(written.value.sample);
      refuse(!written.ok);
    }, SAMPLE_DELAY_MS);
    return () => clearTimeout(timer);
  }, [invite, isWanted, isSaved, run]);
  return { ofStep: checkpointStep, written, isRefused };
}

interface RunProps {
  readonly status: PublicStatus | null;
  readonly about: About | null;
  /** What a tab that takes part hears all the time; null: nothing. */
  readonly snapshot: Snapshot | null;
  readonly invite: string | null;
  /** While this tab takes part; the numbers of the run stand elsewhere then. */
  readonly isRunning: boolean;
  /** The server does not answer: all of it is old. */
  readonly isLost: boolean;
  readonly onDownload: (() => Promise<string>) | null;
}

function titleOf(status: PublicStatus | null, isRunning: boolean): string {
  if (!isRunning) return status?.run ?? 'The run';
  return status?.phase === 'finished' ? 'What it became' : 'What it becomes';
}

/** The run's curve as a donor's tab has it: as the server tells it now and then, and on to the newest step. Pure. */
type Curve = PublicStatus['curve'];
type NewestStep = Pick<Snapshot, 'run' | 'committedSteps' | 'loss' | 'groups'>;

/**
 * `newest`: what the server says all the time to who takes part; null: nothing. Steps that it took back are none. With
 * islands losses stand at other numbers than how many steps are done.
 */
export function curveTo({ run, curve }: Pick<PublicStatus, 'run' | 'curve'>, newest: NewestStep | null): Curve {
  if (newest === null || newest.run !== run || newest.groups !== undefined) return curve;
  const { committedSteps, loss } = newest;
  const stands = curve.filter(([step]) => step < committedSteps);
  if (loss === null || committedSteps === 0) return stands;
  return [...stands, [committedSteps, loss]];
}

export function RunCard({ status, about, snapshot, invite, isRunning, isLost, onDownload }: RunProps) {
  const isOver = status?.phase === 'finished';
  return (
    <section class={isLost ? 'card stale-card' : 'card'} aria-labelledby="run">
      <h2 id="run">{titleOf(status, isRunning)}</h2>
      <p class="soft">
        {about
          ? `A language model of ${aboutText(about.parameters)} numbers, its parameters (${bytesText(about.parameters * 4)}). ${isOver ? 'It has read' : 'By the end it will have read'} ${countText(
              (about.train.budget ? (status?.steps ?? 0) : about.train.steps) *
                about.train.globalBatchSize *
                about.train.sequenceLength,
            )} tokens of text.`
          : 'A language model.'}{' '}
        {!isRunning &&
          status &&
          (isLost ? 'The server doesn’t answer: this is how the run was last seen.' : status.sentence)}{' '}
        <PageLink
          {...{ invite, staysHere: isRunning }}
          page="/status"
          words={isOver ? 'See how it went' : 'See how it’s going'}
        />
        {status?.mayTalk && (
          <>
            , or <PageLink {...{ invite, staysHere: isRunning }} page="/talk" words="talk to it" />
          </>
        )}
      </p>
      {!isRunning && (
        <StepProgress
          done={status?.committedSteps ?? null}
          steps={status?.steps ?? 0}
          note={status && !isOver && !isLost ? `${counted(status.donors, 'donor')} training` : ''}
        />
      )}
      <LossCurve points={status ? curveTo(status, snapshot) : []} />
      <Newest invite={invite} checkpointStep={status?.checkpointStep ?? 0} onDownload={onDownload} />
    </section>
  );
}

interface PageLinkProps {
  readonly page: '/status' | '/talk';
  readonly invite: string | null;
  readonly staysHere: boolean;
  readonly words: string;
}

/** A tab that donates is not left by a link. */
function PageLink({ page, invite, staysHere, words }: PageLinkProps) {
  const href = invitedLink(page, invite);
  return staysHere ? (
    <a href={href} target="_blank" rel="noopener">
      {words} (in a new tab)
    </a>
  ) : (
    <a href={href}>{words}</a>
  );
}

const WIDTH = 600;
const HEIGHT = 120;

function LossCurve({ points }: { points: PublicStatus['curve'] }) {
  const [first, last] = [points[0], points.at(-1)];
  if (!first || !last || points.length < 2) return null;
  const values = points.map(([, loss]) => loss);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const x = (step: number): number => ((step - first[0]) / Math.max(1, last[0] - first[0])) * WIDTH;
  const y = (loss: number): number => ((high - loss) / Math.max(1e-9, high - low)) * HEIGHT;
  const path = points.map(([step, loss]) => `${x(step).toFixed(1)} ${y(loss).toFixed(1)}`).join('L');
  return (
    <figure class="curve">
      <div class="curve-plot">
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          <path class="line" d={`M${path}`} />
        </svg>
        <div class="curve-scale" aria-hidden="true">
          <span>{lossText(high)}</span>
          <span>{lossText(low)}</span>
        </div>
      </div>
      <figcaption>
        Loss: {lossText(first[1])} after step {countText(first[0])}, {lossText(last[1])} after step {countText(last[0])}{' '}
        (lower is better).
      </figcaption>
    </figure>
  );
}

interface NewestProps extends Pick<RunProps, 'invite' | 'onDownload'> {
  readonly checkpointStep: number;
}

/** The newest saved state: what it writes, and the state itself for those who helped to make it. */
function Newest({ invite, checkpointStep, onDownload }: NewestProps) {
  const [sample, show] = useState<PublicSample>(null);
  const [answer, say] = useState('');
  const [isBusy, wait] = useState(false);
  if (checkpointStep === 0) return <p class="soft small">Nothing is saved yet.</p>;
  const act = async (work: () => Promise<string>): Promise<void> => {
    wait(true);
    say('One moment.');
    say(await work().catch(() => 'That didn’t work here.'));
    wait(false);
  };
  const write = async (): Promise<string> => {
    const written = await ask(withInvite('/api/sample', invite), publicSampleSchema);
    if (written.ok) show(written.value.sample);
    return written.ok ? '' : written.reason;
  };
  return (
    <>
      <p class="soft small">Saved up to step {countText(checkpointStep)}.</p>
      <div class="buttons">
        <Press isOff={isBusy} onPress={() => void act(write)}>
          Let it write
        </Press>
        {onDownload && (
          <Press isOff={isBusy} onPress={() => void act(onDownload)}>
            Download the model
          </Press>
        )}
        <span role="status" class="soft small">
          {answer}
        </span>
      </div>
      {sample && (
        <figure class="sample">
          <blockquote>
            <strong>{sample.prompt}</strong>
            {sample.text}
          </blockquote>
          <figcaption>Written by the model as it was after step {countText(sample.committedSteps)}.</figcaption>
        </figure>
      )}
    </>
  );
}
