/** The runs of this server: a list, each with its checkpoints, and a form for the next one. */
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { z } from 'zod';
import { refusal, success } from '../../../swarm/base.ts';
import { INITIAL_DRAFT, type ListedRun, noteSchema, type RunDraft, type RunList } from '../../../swarm/run/runDraft.ts';
import { UNREACHABLE } from '../page/ask.ts';
import { Choice, onSubmit, TextArea, TextField } from '../page/fields.tsx';
import { countText, lossText } from '../page/format.ts';
import { Card, Chip, SmallButton } from '../page/parts.tsx';
import { saveFrom } from '../page/save.ts';
import { UNSEEN } from '../page/unseenLoss.ts';
import { type Act, Answer, Confirm, useAct } from './act.tsx';
import { query, read } from './api.ts';
import { CardForm } from './cardForm.tsx';
import { CheckpointRows } from './checkpointRows.tsx';
import { DraftForm } from './draftForm.tsx';
import type { RowProps, SectionProps } from './props.ts';
import { checkpointsVersion, useRuns } from './runList.ts';
import { PHASES, runSign, type Sign, signWith } from './signs.ts';

/** The runs that an operator looks for, in the order wished. Pure. */
export type RunOrder = 'newest' | 'name' | 'loss' | 'progress';
const RUN_ORDERS: readonly (readonly [RunOrder, string])[] = [
  ['newest', 'newest first'],
  ['name', 'by name'],
  ['loss', 'lowest loss on unseen text first'],
  ['progress', 'most done first'],
];

type Sortable = Pick<
  ListedRun,
  'name' | 'note' | 'isActive' | 'createdAtMs' | 'heldOutLoss' | 'committedSteps' | 'steps'
>;

const COMPARED: Readonly<Record<RunOrder, (a: Sortable, b: Sortable) => number>> = {
  newest: (a, b) => b.createdAtMs - a.createdAtMs,
  name: (a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }),
  loss: (a, b) => (a.heldOutLoss ?? Number.MAX_VALUE) - (b.heldOutLoss ?? Number.MAX_VALUE),
  progress: (a, b) => b.committedSteps / b.steps - a.committedSteps / a.steps,
};

/** The list may be of a moment before a change of runs: the run that this dashboard watches is the active one, or one beside it. */
export function withActive<Run extends Pick<ListedRun, 'name' | 'isActive' | 'isBeside'>>(
  runs: readonly Run[],
  watched: string,
): readonly Run[] {
  const isKnown = runs.some(({ name, isBeside }) => name === watched && !isBeside);
  return isKnown ? runs.map((run) => ({ ...run, isActive: run.name === watched })) : runs;
}

interface Sought {
  readonly search: string;
  readonly order: RunOrder;
}

/** Whose name or note has every word of `search`; the active one always first. */
export function foundRuns<Run extends Sortable>(runs: readonly Run[], { search, order }: Sought): Run[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = ({ name, note }: Run): boolean => words.every((word) => `${name} ${note}`.toLowerCase().includes(word));
  return runs
    .filter(fits)
    .toSorted(
      (a, b) => Number(b.isActive) - Number(a.isActive) || COMPARED[order](a, b) || a.name.localeCompare(b.name),
    );
}

/** The active run's own numbers are the snapshot's: the list is asked again when its checkpoints, or its loss on unseen text, change. */
export function RunsSection({ state, actions, snapshot }: SectionProps) {
  const { run: own, phase, committedSteps, loss, evaluationLoss } = snapshot;
  const [list, refresh] = useRuns([own, checkpointsVersion(state), phase, evaluationLoss].join(' '));
  const { texts, queue, canActivate, canBeside } = list;
  const [draft, write] = useState<RunDraft | null>(null);
  const [sought, seek] = useState<Sought>({ search: '', order: 'newest' });
  const { act, pushForm, ...acts } = useRunActs({ state, actions, snapshot }, list, refresh);
  const clone: RowProps['clone'] = (...from) => {
    act.clear();
    write(draftOf(...from));
  };
  const runs = withActive(list.runs, own);
  const first = runs.find(({ isActive }) => isActive) ?? runs[0];
  // This dashboard is of a run that trains beside the first one: others are told on theirs.
  const isBesides = runs.some(({ name, isBeside }) => isBeside && name === own);
  const rowOf = (run: ListedRun) => ({
    run: run.name === own ? { ...run, committedSteps, loss } : run,
    active: run.name === own ? runSign(snapshot) : null,
    isNext: run.name === state.changingTo,
    isHere: isBesides ? run.name === own : !run.isBeside,
    place: queue.indexOf(run.name),
    isOff: act.isOff || state.changingTo !== null,
    ...{ canActivate, canBeside, ...acts, clone },
  });
  return (
    <>
      <Card
        id="runs"
        title={canBeside || isBesides ? 'Runs of this site' : 'Runs of this server'}
        beside={
          <button type="button" disabled={act.isOff || !first} onClick={() => first && clone(first, null)}>
            New run
          </button>
        }
      >
        <div class="answers">
          <Answer answer={act.answer} />
        </div>
        {runs.length > 1 && <Finder sought={sought} seek={seek} />}
        <ul class="rows">
          {foundRuns(runs, sought).map((run) => (
            <RunRow key={run.name} {...rowOf(run)} />
          ))}
        </ul>
      </Card>
      {pushForm}
      <CardForm run={own} />
      {draft !== null && (
        <DraftForm
          key={`${draft.source} ${draft.checkpoint} ${draft.generation}`}
          {...{ runs, texts }}
          initial={draft}
          donors={snapshot.donors.length}
          onClose={() => write(null)}
          onAdded={refresh}
        />
      )}
    </>
  );
}

/** What the buttons of the rows do: one thing at a time, whichever row it is of. */
function useRunActs({ state, actions, snapshot }: Omit<SectionProps, 'alerts'>, { hub }: RunList, refresh: () => void) {
  const act = useAct();
  // What was said of a change, or of what comes next, is over with it.
  useEffect(() => {
    if (state.changingTo === null) act.clear();
  }, [state.changingTo, snapshot.run]);
  const tellServer = async (path: string, body: unknown, done: string): Promise<void> => {
    await act.tell(path, body, done);
    refresh();
  };
  const activate = async (run: string): Promise<void> => {
    const isTold = await act.tell('/api/operator/activate', { run }, `The server changes to ${run}.`);
    if (isTold) actions.changes(run);
  };
  /** A download that is refused would take the place of this page: the server is asked first. */
  const download = async (address: string): Promise<void> => {
    const isThere = await act.run(() => read(`${address}&ask=1`, z.unknown()), 'The download begins.');
    if (isThere) saveFrom(address);
    else refresh();
  };
  const [pushForm, push] = usePush(hub, act);
  return { act, tellServer, activate, download, push, pushForm };
}

/** The form that pushes a checkpoint, once one was chosen. The Hub's client is large: only who presses the button loads it. */
function usePush(hub: RunList['hub'], act: Act): readonly [ComponentChildren, RowProps['push']] {
  const [form, show] = useState<ComponentChildren>(null);
  const push: RowProps['push'] = async (run, step, generation) => {
    await act.run(async () => {
      const loaded = await import('./hubForm.tsx').catch(() => null);
      if (loaded === null) return refusal(UNREACHABLE);
      const { HubForm } = loaded;
      const key = [run.name, step, generation].join(' ');
      show(<HubForm key={key} {...{ hub, run: run.name, step, generation }} onClose={() => show(null)} />);
      return success(null);
    }, '');
  };
  return [form, push];
}

/** A new run like this one. */
const draftOf = (run: ListedRun, checkpoint: number | null, generation?: number): RunDraft => ({
  ...INITIAL_DRAFT,
  ...{ source: run.name, checkpoint, generation },
  ...{ name: `${run.name.slice(0, 90)}-${checkpoint ?? 'new'}`, steps: run.steps },
  ...{ globalBatchSize: run.globalBatchSize, sequenceLength: run.sequenceLength, learningRate: run.learningRate },
});

function Finder({ sought, seek }: { readonly sought: Sought; readonly seek: (sought: Sought) => void }) {
  return (
    <div class="controls">
      <TextField
        class="inline"
        label="Find"
        value={sought.search}
        onInput={(search) => seek({ ...sought, search })}
        input={{ type: 'search', class: 'small', placeholder: 'name or note' }}
      />
      <Choice
        class="inline"
        label="Sort"
        value={sought.order}
        options={RUN_ORDERS}
        choose={(order) => seek({ ...sought, order })}
        select={{ class: 'small' }}
      />
    </div>
  );
}

const NEXT: Sign = PHASES.preparing;

/** The active run's state is the head's, in the same word. */
function signOf({ committedSteps, steps, isActive, isBeside, isPaused }: ListedRun, active: Sign | null): Sign {
  if (active !== null) return { ...active, word: `Active: ${active.word.toLowerCase()}` };
  if ((isActive || isBeside) && committedSteps < steps)
    return isPaused ? signWith('calm', '◐', 'Active: paused') : signWith('good', '●', 'Active');
  return committedSteps >= steps ? signWith('calm', '✓', 'Finished') : signWith('calm', '○', 'Not active');
}

type QueueProps = Pick<RowProps, 'place' | 'isOff' | 'tellServer'> & { readonly name: string };

/** Runs of the queue follow the active one by themselves. */
function QueueButton({ name, place, isOff, tellServer }: QueueProps) {
  const isQueued = place >= 0;
  const done = isQueued
    ? `${name} is out of the queue.`
    : `${name} follows by itself when the runs before it are finished.`;
  return (
    <>
      <SmallButton
        about={name}
        disabled={isOff}
        onClick={() => void tellServer('/api/operator/queue', { run: name, queued: !isQueued }, done)}
      >
        {isQueued ? 'Take out of the queue' : 'Queue'}
      </SmallButton>
      {isQueued && <span class="small">{place === 0 ? 'Comes next' : `Number ${place + 1} in the queue`}</span>}
    </>
  );
}

/** What operators note of a run, for themselves. */
interface NoteProps {
  readonly run: string;
  readonly note: string;
  readonly isOff: boolean;
  readonly save: (note: string) => void;
}

function RunNote({ run, note, isOff, save }: NoteProps) {
  const [written, write] = useState<string | null>(null);
  if (written === null)
    return (
      <div class="run-note">
        {note !== '' && <p class="noted">{note}</p>}
        <SmallButton about={`on ${run}`} disabled={isOff} onClick={() => write(note)}>
          {note === '' ? 'Add a note' : 'Change the note'}
        </SmallButton>
      </div>
    );
  return (
    <form
      onSubmit={onSubmit(() => {
        save(written);
        write(null);
      })}
    >
      <TextArea
        label={`Note on ${run}, for operators`}
        value={written}
        onInput={write}
        area={{ rows: 2, maxLength: 2000 }}
      />
      <div class="buttons">
        <SmallButton type="submit" disabled={isOff || !noteSchema.safeParse(written).success}>
          Save the note
        </SmallButton>
        <SmallButton onClick={() => write(null)}>Cancel</SmallButton>
      </div>
    </form>
  );
}

const parametersText = ({ parameters, standing }: ListedRun['model']): string =>
  standing === 0
    ? `${countText(parameters)} parameters`
    : `an adapter of ${countText(parameters)} parameters beside ${countText(standing)}`;

function RunRow(props: RowProps) {
  const { run, active, isNext, isHere, isOff, tellServer } = props;
  const { name, model } = run;
  return (
    <li class="row">
      <div class="live-head">
        <h3>{name}</h3>
        <Chip {...(isNext ? NEXT : signOf(run, active))} />
      </div>
      <p class="soft small">
        {countText(run.committedSteps)} of {countText(run.steps)} steps
        {run.loss !== null && `, loss ${lossText(run.loss)}`}
        {run.heldOutLoss !== null && `, ${UNSEEN} ${lossText(run.heldOutLoss)}`}. {model.family} with {model.layers}{' '}
        layers of {model.width}: {parametersText(model)}. {run.globalBatchSize} samples of {run.sequenceLength} tokens a
        step, out of {countText(run.dataTokens)} tokens to train on.
      </p>
      <RunButtons {...props} />
      {isHere && (
        <RunNote
          run={name}
          note={run.note}
          isOff={isOff}
          save={(note) => void tellServer('/api/operator/note', { run: name, note }, 'Noted.')}
        />
      )}
      {isHere && <CheckpointRows {...props} canGoBack={active !== null} />}
    </li>
  );
}

function RunButtons({ run, active, canActivate, canBeside, place, isOff, tellServer, activate, clone }: RowProps) {
  const { name } = run;
  const isTraining = run.isActive || run.isBeside;
  return (
    <div class="buttons">
      {isTraining && active === null && (
        <a href={run.isBeside ? query('/operator', { run: name }) : '/operator'}>
          Open its dashboard<span class="hidden"> of {name}</span>
        </a>
      )}
      {canActivate && !isTraining && (
        <Confirm
          label="Make active"
          about={name}
          question="The active run stops after its current step, and its donors move to this one."
          disabled={isOff}
          onSure={() => void activate(name)}
        />
      )}
      {canBeside && !isTraining && run.committedSteps < run.steps && (
        <Confirm
          label="Train beside"
          about={name}
          question="The site will train it beside the active run, with donors of its own. You can stop it later, but it can’t become the active run again."
          disabled={isOff}
          onSure={() => void tellServer('/api/operator/beside', { run: name }, `The site now trains ${name} as well.`)}
        />
      )}
      {canActivate && !isTraining && (run.committedSteps < run.steps || place >= 0) && (
        <QueueButton name={name} place={place} isOff={isOff} tellServer={tellServer} />
      )}
      <SmallButton about={`of ${name}`} disabled={isOff} onClick={() => clone(run, null)}>
        New run with its text
      </SmallButton>
    </div>
  );
}
