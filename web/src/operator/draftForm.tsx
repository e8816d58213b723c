/** A run that is not there yet: what it would be, what it would take on a cluster, and the button that makes it. */
import type { ComponentChildren, ComponentProps } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { refusal } from '../../../swarm/base.ts';
import {
  type DryRun,
  dryRunSchema,
  type ListedRun,
  type ListedText,
  type RunDraft,
} from '../../../swarm/run/runDraft.ts';
import { Choice, onSubmit, Quantity, TextArea, TextField } from '../page/fields.tsx';
import { type Act, Answer, useAct } from './act.tsx';
import { tell } from './api.ts';
import { type DraftProblem, draftProblem, fieldId, NUMBERS, wrongFields } from './draftFields.ts';
import { noFitText, useFit } from './draftFit.ts';
import { type DraftProps, ModelFields } from './draftModel.tsx';
import { TextFields } from './draftText.tsx';
import { DryRunWords } from './dryRunWords.tsx';

interface FormProps {
  readonly initial: RunDraft;
  readonly runs: readonly ListedRun[];
  readonly texts: readonly ListedText[];
  /** Here, and measured. */
  readonly donors: number;
  readonly onClose: () => void;
  /** There is a run, or a text, more. */
  readonly onAdded: () => void;
}

/** Where the form says what is wrong. */
const [WRONG_ID, ANSWER_ID, FIT_ID] = ['draft-wrong', 'draft-answer', 'draft-fit'];

export function DraftForm({ initial, runs, texts, donors, onClose, onAdded }: FormProps) {
  const { draft, set, plan, act, check, create } = useDraft(initial, onAdded);
  const [cluster, describe] = useState('');
  const bringing = useAct();
  const isOff = act.isOff || bringing.isOff;
  const wrong = wrongFields(draft);
  const isWhole = wrong.length === 0;
  const fit = useFit(draft, isWhole, donors);
  const { answer, fitSentence, marked } = useSaid(wrong, fit, act.answer);
  return (
    <form class="card" aria-labelledby="draft" onSubmit={onSubmit(create)}>
      <h2 id="draft">New run</h2>
      <Step number={1} name="Text">
        <TextFields {...{ draft, set, runs, texts, isOff, bringing, onAdded }} select={marked('text')} />
      </Step>
      <Step number={2} name="Model">
        <ModelFields {...{ draft, set, marked, runs }} />
      </Step>
      <Step number={3} name="Training">
        <TrainingFields {...{ draft, set, marked }} />
      </Step>
      <Step number={4} name="Check and create">
        <TextField
          label="Name"
          value={draft.name}
          onInput={(name) => set({ name })}
          input={{ ...marked('name'), required: true, maxLength: 100 }}
        />
        <p class="fit" id={FIT_ID} role="status">
          {isWhole && fitSentence}
        </p>
      </Step>
      <ClusterField value={cluster} onInput={describe} />
      <div class="buttons">
        <button type="button" disabled={isOff || !isWhole} onClick={() => void check(cluster)}>
          Check plan
        </button>
        <button type="submit" class="primary" disabled={isOff || !isWhole}>
          Create
        </button>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
      {!isWhole && (
        <Answer id={WRONG_ID} answer={{ ok: false, sentence: wrong.map(({ sentence }) => sentence).join(' ') }} />
      )}
      <div id={ANSWER_ID}>
        <Answer answer={answer} />
      </div>
      {plan && <DryRunWords plan={plan} steps={draft.steps} />}
    </form>
  );
}

/** The draft, what the server is asked of it, and the plan that it answered with. */
function useDraft(initial: RunDraft, onAdded: () => void) {
  const [draft, write] = useState(initial);
  const [plan, show] = useState<DryRun | null>(null);
  const act = useAct();
  const set = (part: Partial<RunDraft>): void => {
    write((now) => ({ ...now, ...part }));
    show(null);
    act.clear();
  };
  const check = async (cluster: string): Promise<void> => {
    const question = { draft, cluster: cluster.trim() === '' ? null : cluster, whatIf: null };
    await act.run(async () => {
      const answer = await tell('/api/operator/plan', question, dryRunSchema);
      show(answer.ok ? answer.value : null);
      const isOfDonors = !answer.ok && question.cluster === null && draftProblem(answer.reason) === null;
      return isOfDonors ? refusal(noFitText(answer.reason)) : answer;
    }, 'These donors can train it. See below who does what.');
  };
  const create = async (): Promise<void> => {
    await act.tell(
      '/api/operator/runs',
      draft,
      `${draft.name} is created. Make it active, or queue it, in the list above.`,
    );
    onAdded();
  };
  return { draft, set, plan, act, check, create };
}

/** What a button was answered, what is said of the fit beside it, and what either or `wrong` says of a field. */
function useSaid(wrong: readonly DraftProblem[], fit: ReturnType<typeof useFit>, answer: Act['answer']) {
  const refused = answer?.ok === false ? answer.sentence : null;
  const problem = refused === null ? null : draftProblem(refused);
  // What a button was answered of this draft is not said twice, and nothing is still being checked beside it.
  const isSaid = fit.state === 'asked' ? answer !== null : fit.state === 'refused' && refused !== null;
  // Who pressed a button is led to what it is refused for.
  useEffect(() => {
    if (problem?.field) document.getElementById(fieldId(problem.field))?.focus();
  }, [refused]);
  /** What is wrong with a field: that it is, and where it is said. */
  const marked: DraftProps['marked'] = (field) => {
    const places = [
      wrong.some((each) => each.field === field) && WRONG_ID,
      problem?.field === field && ANSWER_ID,
      fit.problem?.field === field && FIT_ID,
    ].filter((id) => id !== false);
    // An empty name on a new form is no mistake yet.
    const isInvalid = places.some((id) => field !== 'name' || id !== WRONG_ID);
    return {
      id: fieldId(field),
      'aria-invalid': isInvalid || undefined,
      'aria-describedby': places.join(' ') || undefined,
    };
  };
  return {
    answer: problem ? { ok: false, sentence: problem.sentence } : answer,
    // What is wrong with a text is said beside it.
    fitSentence: isSaid || fit.problem?.field === 'text' ? '' : fit.sentence,
    marked,
  };
}

interface StepProps {
  readonly number: number;
  readonly name: string;
  readonly children: ComponentChildren;
}

function Step({ number, name, children }: StepProps) {
  return (
    <fieldset class="draft-step">
      <legend>
        {number}. {name}
      </legend>
      <div class="fields draft">{children}</div>
    </fieldset>
  );
}

const SCHEDULES = (['cosine', 'constant'] as const).map((name) => [name, name] as const);

function TrainingFields({ draft, set, marked }: DraftProps) {
  return (
    <>
      {NUMBERS.map(([field, label, unit, least]) => (
        <Quantity
          key={field}
          label={label}
          unit={unit}
          value={draft[field]}
          least={least}
          onInput={(value) => set({ [field]: value })}
          input={marked(field)}
        />
      ))}
      <Choice
        label="Rate over the steps"
        value={draft.schedule}
        options={SCHEDULES}
        choose={(schedule) => set({ schedule })}
      />
    </>
  );
}

const ClusterField = (typed: Pick<ComponentProps<typeof TextArea>, 'value' | 'onInput'>) => (
  <details>
    <summary>Plan for other donors than those here</summary>
    <TextArea
      {...typed}
      label="Cluster file: donors and their links, as for shoal plan"
      area={{ rows: 6, spellcheck: false }}
    />
  </details>
);
