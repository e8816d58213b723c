/** What the world sees of a run. Pure. */
import { useMemo, useState } from 'preact/hooks';
import { at } from '../../../swarm/base.ts';
import type { Leaderboard } from '../../../swarm/messages/leaderboard.ts';
import type { PublicStatus } from '../../../swarm/messages/publicStatus.ts';
import { invitedLink, UNREACHABLE } from '../page/ask.ts';
import { Board } from '../page/board.tsx';
import { countText, lossText, rateText, seenText } from '../page/format.ts';
import { Banner, Card, Chip, Stat, StepProgress } from '../page/parts.tsx';
import { UNSEEN, UNSEEN_LOSS, unseenNote } from '../page/unseenLoss.ts';
import { ChartCard } from './chart.tsx';
import type { Chart } from './charts.ts';
import { joined, type StepWindow } from './series.ts';
import { CONNECTIONS, PHASES, type Sign, signWith } from './signs.ts';

export interface StatusState {
  readonly status: PublicStatus | null;
  readonly board: Leaderboard | null;
  readonly problem: string | null;
  /** When the server last said how the run is; null: it has not. */
  readonly seenAtMs: number | null;
  readonly invite: string | null;
}

export function StatusView({ status, board, problem, seenAtMs, invite }: StatusState) {
  return (
    <>
      <Banner page="Status" invite={invite}>
        <Chip {...signOf(status, problem)} announced />
      </Banner>
      <main class={problem === null ? 'narrow' : 'narrow stale'}>
        {status === null ? (
          <section class="card">
            <h1>The run</h1>
            <p class="sentence">{problem ?? 'Asking the server how the run is.'}</p>
          </section>
        ) : (
          <Run {...{ status, board, problem, seenAtMs, invite }} />
        )}
      </main>
    </>
  );
}

const signOf = (status: PublicStatus | null, problem: string | null): Sign =>
  status && problem === null ? PHASES[status.phase] : noStatus(problem);

/** What the tab is called: how the run is, and which one. */
export function statusTitle({ status, problem }: Pick<StatusState, 'status' | 'problem'>): string {
  const { glyph, word } = signOf(status, problem);
  return status === null ? `${glyph} ${word} · Shoal` : `${glyph} ${word} · ${status.run} · Shoal`;
}

function noStatus(problem: string | null): Sign {
  if (problem === null) return CONNECTIONS.connecting;
  return problem === UNREACHABLE ? CONNECTIONS.closed : signWith('bad', '✕', 'No status');
}

const NO_MARKS: readonly never[] = [];

function Run({ status, board, problem, seenAtMs, invite }: StatusState & { readonly status: PublicStatus }) {
  const { run, phase, sentence, committedSteps, steps, loss, evaluationLoss, tokensPerSecond, donors } = status;
  const [window, show] = useState<StepWindow>(null);
  const chart = useMemo(() => chartOf(status, window), [status, window]);
  const extent = [status.curve[0]?.[0] ?? 0, status.curve.at(-1)?.[0] ?? 0] as const;
  return (
    <>
      <section class={problem === null ? 'card live' : 'card live stale-card'} aria-labelledby="run-name">
        <h1 id="run-name">{run}</h1>
        <p class="sentence">{problem === null ? sentence : `${problem} ${seenText(seenAtMs)}`}</p>
        <StepProgress
          done={committedSteps}
          steps={steps}
          time={status.time}
          note={status.checkpointStep > 0 ? `saved up to step ${countText(status.checkpointStep)}` : ''}
        />
        <dl class="stats four">
          <Stat label="Loss" value={lossText(loss)} note={problem === null ? 'of the newest step' : 'when last seen'} />
          <Stat
            label={UNSEEN_LOSS}
            value={lossText(evaluationLoss)}
            note={unseenNote(evaluationLoss, status.evaluations.at(-1)?.[0])}
          />
          <Stat
            label="Speed"
            value={rateText(tokensPerSecond)}
            note={problem === null ? 'tokens a second' : 'tokens a second then'}
          />
          <Stat label="Donors" value={countText(donors)} note={problem === null ? 'training now' : 'when last seen'} />
        </dl>
      </section>
      <h2 class="hidden">Charts</h2>
      <section class="card chart" aria-labelledby="chart-loss">
        <ChartCard chart={chart} marks={NO_MARKS} window={window} onWindow={show} extent={extent} run={run} />
      </section>
      {board && (
        <Card id="leaderboard" title="Leaderboard">
          <p class="soft small">Of the donors who chose a name: the tokens of committed steps that they carried.</p>
          <Board board={board} />
        </Card>
      )}
      {status.mayTalk && <TalkCard isOver={phase === 'finished'} invite={invite} />}
      <section class="card">
        <h2>{phase === 'finished' ? 'What came of it' : 'Take part'}</h2>
        {phase === 'finished' ? (
          <p>
            This model was trained on GPUs that people lent in their browsers.{' '}
            <a href={invitedLink('/', invite)}>The donor page</a> lets it write, and says what comes next.
          </p>
        ) : (
          <p>
            This run trains on GPUs that people lend in their browsers.{' '}
            <a href={invitedLink('/', invite)}>Open the donor page</a> to see what it would do on yours; nothing starts
            by itself.
          </p>
        )}
      </section>
    </>
  );
}

function TalkCard({ isOver, invite }: Pick<StatusState, 'invite'> & { readonly isOver: boolean }) {
  return (
    <section class="card">
      <h2>Talk to it</h2>
      <p>
        It goes on with what you write, {isOver ? 'as its training has left it' : 'also while it learns'}.{' '}
        <a href={invitedLink('/talk', invite)}>Talk to the model</a>
      </p>
    </section>
  );
}

function chartOf({ curve, evaluations, lossPer }: PublicStatus, window: StepWindow): Chart {
  const inWindow = ([step]: readonly [number, number]): boolean =>
    window === null || (step >= window[0] && step <= window[1]);
  const lines = [curve.filter(inWindow), evaluations.filter(inWindow)].map((points) => ({
    xs: points.map(([step]) => step),
    ys: points.map(([, value]) => value),
  }));
  const { xs, columns } = joined(lines);
  return {
    ...{
      id: 'loss',
      title: 'Loss',
      note:
        lossPer === 'pair'
          ? 'How far the model is from preferring the better answer of each pair (mean loss, in nats a pair). Lower is better.'
          : 'How far off the model is, token by token (mean cross-entropy, in nats). Lower is better.',
      format: lossText,
    },
    ...{ xs, isLog: false, fromZero: false, isWhole: false },
    lines: [
      { label: 'training', tone: 'accent', pattern: 'solid', values: at(columns, 0) },
      { label: UNSEEN, tone: 'good', pattern: 'points', values: at(columns, 1) },
    ],
    csv: () => ({
      columns: ['step', 'loss', 'heldOutLoss'],
      rows: xs.map((at, place) => [at, columns[0]?.[place] ?? null, columns[1]?.[place] ?? null]),
    }),
  };
}
