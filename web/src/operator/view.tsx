/** The operator's page as a pure function of its state. */
import type { Snapshot, SnapshotPhase } from '../../../swarm/messages.ts';
import type { OperatorCommand } from '../../../swarm/watch.ts';
import {
  adapterText,
  byteRateText,
  countText,
  durationText,
  lossText,
  millisecondsText,
  NOTHING,
  ROUTES,
  rangeText,
  rateText,
  shortId,
} from '../page/format.ts';
import { Banner, Chip, Stat, StepProgress } from '../page/parts.tsx';
import { Curve } from './curve.tsx';
import { isAllowed, type OperatorState, secondsLeft } from './state.ts';

export interface OperatorActions {
  login(token: string): void;
  command(command: OperatorCommand): void;
}

interface ViewProps {
  readonly state: OperatorState;
  readonly actions: OperatorActions;
}

interface Sign {
  readonly tone: string;
  readonly glyph: string;
  readonly word: string;
}

const PHASES: Readonly<Record<SnapshotPhase, Sign>> = {
  waiting: { tone: 'wait', glyph: '◔', word: 'Waiting' },
  preparing: { tone: 'wait', glyph: '◔', word: 'Preparing' },
  training: { tone: 'good', glyph: '●', word: 'Training' },
  evaluating: { tone: 'good', glyph: '●', word: 'Evaluating' },
  saving: { tone: 'good', glyph: '●', word: 'Saving' },
  paused: { tone: 'calm', glyph: '◐', word: 'Paused' },
  finished: { tone: 'good', glyph: '✓', word: 'Finished' },
  failed: { tone: 'bad', glyph: '✕', word: 'Failed' },
};

const CONNECTIONS: Readonly<Record<OperatorState['connection'], Sign>> = {
  connecting: { tone: 'wait', glyph: '◔', word: 'Connecting' },
  open: { tone: 'good', glyph: '●', word: 'Live' },
  closed: { tone: 'bad', glyph: '↻', word: 'Reconnecting' },
  loggedOut: { tone: 'calm', glyph: '○', word: 'Logged out' },
};

const DONOR_STATES: Readonly<Record<Snapshot['donors'][number]['state'], Sign>> = {
  joining: { tone: 'wait', glyph: '◔', word: 'Joining' },
  computing: { tone: 'good', glyph: '●', word: 'Computing' },
  spare: { tone: 'calm', glyph: '○', word: 'Spare' },
  paused: { tone: 'calm', glyph: '◐', word: 'Paused' },
};

export function OperatorView({ state, actions }: ViewProps) {
  return (
    <>
      <Banner page="Operator">
        <Chip {...CONNECTIONS[state.connection]} announced />
      </Banner>
      {state.connection === 'loggedOut' ? (
        <Login state={state} actions={actions} />
      ) : (
        <Dashboard state={state} actions={actions} />
      )}
    </>
  );
}

function Login({ state, actions }: ViewProps) {
  const { busy, problem } = state.login;
  return (
    <main class="narrow">
      <form
        class="card login"
        onSubmit={(event) => {
          event.preventDefault();
          actions.login(String(new FormData(event.currentTarget).get('token') ?? '').trim());
        }}
      >
        <h1>Log in as operator</h1>
        <p class="soft">The server printed a one-time token when it started. Using it prints the next one.</p>
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
        <p id="login-problem" class="answer" role="alert">
          {problem && (
            <>
              <span aria-hidden="true">✕ </span>
              {problem}
            </>
          )}
        </p>
      </form>
    </main>
  );
}

function Dashboard({ state, actions }: ViewProps) {
  const { snapshot, connection, curve } = state;
  if (!snapshot) {
    const sentence =
      connection === 'closed'
        ? 'The server does not answer. This page keeps trying by itself.'
        : 'Asking the server how the run is.';
    return (
      <main class="wide">
        <section class="card" aria-live="polite">
          <h1>The run</h1>
          <p class="sentence">{sentence}</p>
        </section>
      </main>
    );
  }
  const left = secondsLeft(state);
  return (
    <main class={connection === 'open' ? 'wide' : 'wide stale'}>
      <section class="card" aria-labelledby="run">
        <div class="live-head">
          <h1 id="run">{snapshot.run}</h1>
          <Chip {...PHASES[snapshot.phase]} announced />
        </div>
        <p class="sentence">
          {connection === 'open' ? snapshot.sentence : 'The connection is lost; this is how the run was last seen.'}
        </p>
        <StepProgress
          done={snapshot.committedSteps}
          steps={snapshot.steps}
          note={left === null || snapshot.phase === 'paused' ? '' : `about ${durationText(left)} left`}
        />
        <Commands state={state} actions={actions} snapshot={snapshot} />
      </section>
      <section class="card" aria-labelledby="loss">
        <h2 id="loss">Loss</h2>
        <dl class="stats four">
          <Stat label="Loss" value={lossText(snapshot.loss)} note="of the newest step" />
          <Stat label="Held-out loss" value={lossText(snapshot.evaluationLoss)} note="on unseen text" />
          <Stat label="Speed" value={rateText(snapshot.tokensPerSecond)} note="tokens a second" />
          <Stat
            label="Donors"
            value={String(snapshot.donors.filter(({ state: each }) => each === 'computing').length)}
            note={`of ${snapshot.donors.length} computing`}
          />
        </dl>
        <Curve curve={curve} />
      </section>
      <Donors donors={snapshot.donors} />
      <Links links={snapshot.links ?? []} />
    </main>
  );
}

const BUTTONS: readonly (readonly [OperatorCommand, string])[] = [
  ['start', 'Start'],
  ['pause', 'Pause'],
  ['resume', 'Resume'],
  ['stop', 'Stop'],
];

function Commands({ state, actions, snapshot }: ViewProps & { snapshot: Snapshot }) {
  const { asked, answer, connection } = state;
  return (
    <>
      <div class="buttons">
        {BUTTONS.map(([command, label]) => (
          <button
            key={command}
            type="button"
            disabled={asked !== null || connection !== 'open' || !isAllowed(command, snapshot.phase)}
            onClick={() => actions.command(command)}
          >
            {label}
          </button>
        ))}
      </div>
      <p class={answer?.ok === false ? 'answer' : 'answer soft'} role="status">
        {answer && !answer.ok && <span aria-hidden="true">✕ </span>}
        {answer?.sentence}
      </p>
    </>
  );
}

/** Each direction by itself: both ends measure their own way to the other. */
function Links({ links }: { links: NonNullable<Snapshot['links']> }) {
  if (links.length === 0) return null;
  return (
    <div class="card">
      <h2 id="links">Links</h2>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
      <section class="table" aria-labelledby="links" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">From</th>
              <th scope="col">To</th>
              <th scope="col">Way</th>
              <th scope="col" class="number">
                Round trip
              </th>
              <th scope="col" class="number">
                Rate
              </th>
            </tr>
          </thead>
          <tbody>
            {links.map(({ from, peer, route, roundTripMs, bytesPerSecond }) => (
              <tr key={`${from} ${peer}`}>
                <th scope="row" title={from}>
                  {shortId(from)}
                </th>
                <td title={peer}>{shortId(peer)}</td>
                <td>
                  <Chip {...ROUTES[route]} />
                </td>
                <td class="number">{millisecondsText(roundTripMs)}</td>
                <td class="number">{byteRateText(bytesPerSecond)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </div>
  );
}

function Donors({ donors }: { donors: Snapshot['donors'] }) {
  return (
    <div class="card">
      <h2 id="donors">Donors</h2>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
      <section class="table" aria-labelledby="donors" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">Donor</th>
              <th scope="col">State</th>
              <th scope="col">Stage</th>
              <th scope="col">Layers</th>
              <th scope="col" class="number">
                Tokens
              </th>
              <th scope="col">Adapter</th>
            </tr>
          </thead>
          <tbody>
            {donors.map(({ peer, adapter, state, stages, tokens }) => (
              <tr key={peer}>
                <th scope="row" title={peer}>
                  {shortId(peer)}
                </th>
                <td>
                  <Chip {...DONOR_STATES[state]} />
                </td>
                <td>{stages.map(({ stage }) => stage + 1).join(', ') || NOTHING}</td>
                <td>{stages.map(({ layers }) => rangeText(layers)).join(', ') || NOTHING}</td>
                <td class="number">{countText(tokens)}</td>
                <td class="adapter">
                  {adapterText(adapter)}
                  {adapter.software && ' (software)'}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {donors.length === 0 && (
        <p class="soft empty">
          Nobody is here. Donors open the <a href="/">start page</a> of this server.
        </p>
      )}
    </div>
  );
}
