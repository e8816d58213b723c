/** The checkpoints of a run in the list of runs, and what can be done with each. */
import { useContext } from 'preact/hooks';
import { counted } from '../../../swarm/quantityText.ts';
import type { ListedRun } from '../../../swarm/run/runDraft.ts';
import { Tick } from '../page/fields.tsx';
import { countText } from '../page/format.ts';
import { SmallButton } from '../page/parts.tsx';
import { Confirm, RoleContext } from './act.tsx';
import { query } from './api.ts';
import type { RowProps } from './props.ts';

interface CheckpointProps extends Pick<RowProps, 'run' | 'isOff' | 'tellServer' | 'download' | 'clone' | 'push'> {
  /** It is the run of this dashboard. */
  readonly canGoBack: boolean;
}

/** What an operator is asked before a run goes back to `checkpoint`: all that goes with its later steps, counted, and what stays. */
export function goBackQuestion(
  { committedSteps, checkpoints }: Pick<ListedRun, 'committedSteps' | 'checkpoints'>,
  { committedSteps: step, samplesAfter, evaluationsAfter }: ListedRun['checkpoints'][number],
): string {
  const later = checkpoints.filter((each) => each.committedSteps > step);
  const kept = later.filter((each) => each.kept);
  const gone = [
    counted(samplesAfter, 'sample'),
    counted(evaluationsAfter, 'evaluation'),
    `${counted(later.length - kept.length, 'checkpoint')} that you don’t keep`,
  ].filter((words) => !words.startsWith('0 '));
  const stays =
    kept.length > 0
      ? ` Kept checkpoints stay, to export or clone: ${kept.map((each) => each.committedSteps).join(', ')}.`
      : later.length > 0
        ? ` To save ${later.length === 1 ? 'it' : 'one of these checkpoints'}, press No and mark it Keep.`
        : '';
  const deleted = gone.length > 0 ? ` Deleted: ${gone.join(', ')}.` : '';
  const again = committedSteps - step;
  return `${counted(again, 'step')} after ${step} will be done again, and the credit for ${again === 1 ? 'it' : 'them'} is taken back.${deleted}${stays}`;
}

export function CheckpointRows(props: CheckpointProps) {
  const { run, isOff, tellServer } = props;
  const { name, checkpoints, formerCheckpoints } = run;
  return (
    <details>
      <summary>
        Checkpoints<span class="hidden"> of {name}</span>{' '}
        <span class="soft plain">
          after {checkpoints.map((each) => each.committedSteps).join(', ')} steps
          {formerCheckpoints.length > 0 && `, and ${formerCheckpoints.length} kept from before the run went back`}
        </span>
      </summary>
      <ul class="rows">
        {checkpoints.map((checkpoint) => (
          <CheckpointRow key={checkpoint.committedSteps} {...props} checkpoint={checkpoint} />
        ))}
        {formerCheckpoints.map(({ committedSteps: step, generation }) => {
          const about = `kept checkpoint ${step} of ${name}, from before it went back`;
          return (
            <li key={`${step} ${generation}`} class="checkpoint">
              <span>{afterText(step)}, kept from before the run went back</span>
              <span class="buttons">
                <Confirm
                  label="Delete"
                  about={about}
                  question="This checkpoint can’t be made again: the run went back to an earlier one."
                  disabled={isOff}
                  onSure={() =>
                    void tellServer(
                      '/api/operator/keep',
                      { run: name, step, generation, kept: false },
                      `Checkpoint ${step} is deleted.`,
                    )
                  }
                />
                <TakeAlong {...props} step={step} generation={generation} about={about} />
              </span>
            </li>
          );
        })}
      </ul>
    </details>
  );
}

interface CheckpointRowProps extends CheckpointProps {
  readonly checkpoint: ListedRun['checkpoints'][number];
}

function CheckpointRow({ checkpoint, canGoBack, ...props }: CheckpointRowProps) {
  const { run, isOff, tellServer } = props;
  const { name } = run;
  const { committedSteps: step, kept } = checkpoint;
  const about = `checkpoint ${step} of ${name}`;
  const keep = (): Promise<void> =>
    tellServer(
      '/api/operator/keep',
      { run: name, step, kept: !kept },
      kept ? 'Newer checkpoints may replace it again.' : `Checkpoint ${step} is kept.`,
    );
  return (
    <li class="checkpoint">
      <span>{afterText(step)}</span>
      <span class="buttons">
        <Tick checked={kept} disabled={isOff} onChange={keep}>
          Keep<span class="hidden"> {about}</span>
        </Tick>
        {canGoBack && step < run.committedSteps && (
          <Confirm
            label="Go back"
            about={`to ${about}`}
            question={goBackQuestion(run, checkpoint)}
            disabled={isOff}
            onSure={() =>
              void tellServer('/api/operator/back', { run: name, step }, `The run goes back to step ${step}.`)
            }
          />
        )}
        <TakeAlong {...props} step={step} about={about} />
      </span>
    </li>
  );
}

const afterText = (step: number): string => `After ${countText(step)} ${step === 1 ? 'step' : 'steps'}`;

interface TakeAlongProps extends Pick<RowProps, 'run' | 'isOff' | 'download' | 'clone' | 'push'> {
  readonly step: number;
  readonly generation?: number;
  /** For a screen reader: which of several rows a button is of. */
  readonly about: string;
}

function TakeAlong({ run, step, generation, about, isOff, download, clone, push }: TakeAlongProps) {
  const role = useContext(RoleContext);
  const former = generation === undefined ? {} : { generation };
  return (
    <>
      {!run.isBeside && (
        <SmallButton about={about} disabled={isOff} onClick={() => clone(run, step, generation)}>
          Clone
        </SmallButton>
      )}
      {role === 'operator' && (
        <>
          <a
            href={query('/api/operator/export', { run: run.name, step, ...former })}
            download
            onClick={(event) => {
              event.preventDefault();
              void download(event.currentTarget.href);
            }}
          >
            Export<span class="hidden"> {about}</span>
          </a>
          <SmallButton about={about} disabled={isOff} onClick={() => void push(run, step, generation)}>
            Push to the Hub
          </SmallButton>
        </>
      )}
    </>
  );
}
