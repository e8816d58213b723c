/** The operator's page: who is logged in sees the run's head, the parts of the dashboard, and one of them. */
import { useRef } from 'preact/hooks';
import { publicStatusSchema } from '../../../swarm/messages/publicStatus.ts';
import type { Role } from '../../../swarm/messages/watch.ts';
import { durationText } from '../../../swarm/quantityText.ts';
import { invitedLink, withInvite } from '../page/ask.ts';
import { wallMs } from '../page/clock.ts';
import { onSubmit } from '../page/fields.tsx';
import { timeText } from '../page/format.ts';
import { Banner, Chip, SmallButton, StepProgress } from '../page/parts.tsx';
import { RoleContext } from './act.tsx';
import { adviceOf } from './advice.ts';
import { useAlerts } from './alertsCard.tsx';
import { useAnswer } from './api.ts';
import { Commands } from './commands.tsx';
import { PeersSection } from './peersSection.tsx';
import type { SectionProps, ViewProps } from './props.ts';
import { RunSection } from './runSection.tsx';
import { RunsSection } from './runsSection.tsx';
import { SamplesSection } from './samplesSection.tsx';
import { SECTIONS, type Section } from './sections.ts';
import { SettingsSection } from './settingsSection.tsx';
import { CONNECTIONS, PHASES, runSign, signWith } from './signs.ts';
import { type OperatorConnection, type OperatorState, secondsLeft } from './state.ts';
import { SwarmSection } from './swarmSection.tsx';
import { lostSentence } from './whyNoPicture.ts';

/** The way in: a token that the server printed, good for one session. */
interface LoginProps {
  readonly login: OperatorState['login'];
  readonly send: (token: string) => void;
}

/** What the server says of a token that it does not take. */
function Refusal({ problem }: Pick<OperatorState['login'], 'problem'>) {
  return (
    <p id="login-problem" class="answer" role="alert">
      {problem && (
        <>
          <span aria-hidden="true">✕ </span>
          {problem}
        </>
      )}
    </p>
  );
}

function Login({ login: { busy, problem }, send }: LoginProps) {
  return (
    <main class="narrow">
      <form
        class="card login"
        onSubmit={onSubmit((form) => send(String(new FormData(form).get('token') ?? '').trim()))}
      >
        <h1>Log in as operator</h1>
        <p class="soft">
          The server printed a one-time token when it started. Using it prints the next one. An operator’s dashboard
          makes tokens for viewers.
        </p>
        <label for="token">Operator token</label>
        <div class="login-row">
          <input
            id="token"
            name="token"
            type="password"
            autocomplete="off"
            spellcheck={false}
            required
            aria-describedby="login-problem"
            aria-invalid={problem !== null}
          />
          <button type="submit" class="primary" disabled={busy}>
            Log in
          </button>
        </div>
        <Refusal problem={problem} />
      </form>
    </main>
  );
}

export function OperatorView({ state, actions }: ViewProps) {
  return (
    <>
      <Banner page="Operator" invite={state.invite}>
        <Chip {...CONNECTIONS[state.connection]} announced />
        {state.snapshot && state.connection !== 'loggedOut' && <Session role={state.role} actions={actions} />}
      </Banner>
      {state.connection === 'loggedOut' ? (
        <Login login={state.login} send={(token) => actions.login(token)} />
      ) : (
        <Dashboard state={state} actions={actions} />
      )}
    </>
  );
}

function Session({ role, actions }: { readonly role: Role } & Pick<ViewProps, 'actions'>) {
  return (
    <>
      {role === 'viewer' && <span class="small">Viewer: looks only</span>}
      <SmallButton onClick={() => actions.logout()}>Log out</SmallButton>
    </>
  );
}

const ASKING = 'Asking the server how the run is.';
const NO_PICTURE: Readonly<Record<OperatorConnection, string>> = {
  connecting: ASKING,
  open: ASKING,
  loggedOut: ASKING,
  closed: 'The server does not answer. This page keeps trying by itself.',
  noLeader: 'This server can’t reach the one that leads the run. This page keeps trying by itself.',
  noRun: 'No run of this name is active at the moment. This page shows it as soon as it is.',
};

function Dashboard({ state, actions }: ViewProps) {
  const { snapshot, connection, section } = state;
  const alerts = useAlerts(state);
  if (!snapshot) {
    return (
      <main class="wide">
        <section class="card" aria-live="polite">
          <h1>The run</h1>
          <p class="sentence">{NO_PICTURE[connection]}</p>
          {connection === 'noRun' && (
            <p>
              <a href="/operator">To the run that is active</a>
            </p>
          )}
        </section>
      </main>
    );
  }
  const props = { state, actions, snapshot, alerts };
  return (
    <main class={connection === 'open' ? 'wide' : 'wide stale'}>
      {state.login.problem !== null && <Refusal {...state.login} />}
      <Head {...props} />
      <Parts section={section} alerts={alerts.length} invite={state.invite} />
      <RoleContext.Provider value={state.role}>{part(section, props)}</RoleContext.Provider>
    </main>
  );
}

function part(section: Section, props: SectionProps) {
  switch (section) {
    case 'run':
      return <RunSection {...props} />;
    case 'swarm':
      return <SwarmSection {...props} />;
    case 'peers':
      return <PeersSection {...props} />;
    case 'runs':
      return <RunsSection {...props} />;
    case 'samples':
      return <SamplesSection {...props} />;
    case 'settings':
      return <SettingsSection {...props} />;
  }
}

interface PartsProps {
  readonly section: Section;
  readonly alerts: number;
  readonly invite: string | null;
}

const linksSchema = publicStatusSchema.pick({ mayTalk: true });

function Parts({ section: current, alerts, invite }: PartsProps) {
  const [{ mayTalk }] = useAnswer(withInvite('/api/status', invite), linksSchema, {}, null);
  return (
    <nav class="parts" aria-label="Parts of the dashboard">
      {SECTIONS.map(([section, name]) => (
        <a key={section} href={`#${section}`} aria-current={section === current ? 'page' : undefined}>
          {name}
          {section === 'run' && alerts > 0 && (
            <span class="badge">
              <span aria-hidden="true">⚠ </span>
              {alerts}
              <span class="hidden"> {alerts === 1 ? 'alert' : 'alerts'}</span>
            </span>
          )}
        </a>
      ))}
      <a href={invitedLink('/status', invite)}>Public status</a>
      {mayTalk && <a href={invitedLink('/talk', invite)}>Talk</a>}
    </nav>
  );
}

/** When the server was last heard, as the page saw it; null: it is there. */
function useLostAt({ connection }: ViewProps['state']): string | null {
  const lost = useRef<string | null>(null);
  if (connection === 'open') lost.current = null;
  else lost.current ??= timeText(wallMs());
  return lost.current;
}

/** As soon as what is under way has ended: on slow lines a step takes minutes. */
function changeSentence(run: string, planning: SectionProps['snapshot']['planning']): string {
  const seconds = planning?.measuredSeconds ?? planning?.predictedSeconds ?? null;
  const whole = seconds === null ? '' : ` (a whole step takes about ${durationText(seconds)})`;
  return `The server changes to ${run}: first the step under way ends${whole}, and everything is saved. Donors and this page come along by themselves.`;
}

/** What the head says first: the run's state, or why what stands here is not its newest. */
function headOf(
  { changingTo, connection }: ViewProps['state'],
  snapshot: SectionProps['snapshot'],
  lostAt: string | null,
) {
  const sign = runSign(snapshot);
  if (changingTo !== null)
    return {
      sign: PHASES.preparing,
      sentence: changeSentence(changingTo, snapshot.planning),
    };
  if (lostAt === null) return { sign, sentence: snapshot.sentence };
  return {
    sign: signWith('calm', '↻', `Last seen: ${sign.word}`),
    sentence: lostSentence(connection, lostAt),
  };
}

function Head({ state, actions, snapshot, alerts }: SectionProps) {
  const left = secondsLeft(state);
  const lostAt = useLostAt(state);
  const { sign, sentence } = headOf(state, snapshot, lostAt);
  const advice = adviceOf(snapshot, alerts, state.plan, state.curve.at(-1)?.bubble ?? null);
  const isNow = lostAt === null && state.changingTo === null;
  return (
    <section class="card" aria-labelledby="run-name">
      <div class="live-head">
        <h1 id="run-name">{snapshot.run}</h1>
        <Chip {...sign} announced />
      </div>
      <p class="sentence">{sentence}</p>
      {isNow && (
        <p class="advice">
          <Chip {...advice.sign} /> {advice.sentence}
        </p>
      )}
      <StepProgress
        done={snapshot.committedSteps}
        steps={snapshot.steps}
        time={snapshot.time}
        note={
          !isNow || left === null || snapshot.time || snapshot.phase === 'paused' || snapshot.phase === 'waiting'
            ? ''
            : `about ${durationText(left)} left`
        }
      />
      <Commands state={state} actions={actions} snapshot={snapshot} />
    </section>
  );
}
