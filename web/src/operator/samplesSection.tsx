/** What each checkpoint writes after the same prompts, side by side, with its held-out loss. Text is only ever text. */
import { useState } from 'preact/hooks';
import { z } from 'zod';
import { type Result, refusal, success } from '../../../swarm/base.ts';
import { counted } from '../../../swarm/quantityText.ts';
import { Choice, onSubmit, Quantity, TextArea } from '../page/fields.tsx';
import { countText, lossText } from '../page/format.ts';
import { type Column, numbers, Stacks } from '../page/stacks.tsx';
import { UNSEEN_LOSS } from '../page/unseenLoss.ts';
import { Answer, useAct } from './act.tsx';
import { AnswersCard } from './answersCard.tsx';
import { query, tell, useAnswer } from './api.ts';
import type { SectionProps } from './props.ts';
import { checkpointsVersion, useRuns } from './runList.ts';

const samplesSchema = z.object({
  samples: z.array(z.object({ committedSteps: z.number(), prompt: z.string(), text: z.string() })),
  evaluations: z.array(z.tuple([z.number(), z.number()])),
});
type Samples = z.infer<typeof samplesSchema>;
const NOTHING_YET: Samples = { samples: [], evaluations: [] };
const FIRST_PROMPTS = ['The ', 'Call me '];
const MOST_PROMPTS = 5;

export function SamplesSection({ state, snapshot: { run } }: SectionProps) {
  const [{ runs }] = useRuns(`${run} ${checkpointsVersion(state)}`);
  const [samples, refresh] = useAnswer(query('/api/operator/samples', { run }), samplesSchema, NOTHING_YET, null);
  const checkpoints = runs.find(({ name }) => name === run)?.checkpoints.map((each) => each.committedSteps) ?? [];
  return (
    <>
      <SampleForm run={run} checkpoints={checkpoints} known={promptsOf(samples.samples)} onWritten={refresh} />
      <AnswersCard />
      <SampleTable samples={samples} />
    </>
  );
}

const promptsOf = (samples: Samples['samples']): string[] => [...new Set(samples.map(({ prompt }) => prompt))];

interface FormProps {
  readonly run: string;
  readonly checkpoints: readonly number[];
  readonly known: readonly string[];
  readonly onWritten: () => void;
}

function SampleForm({ run, checkpoints, known, onWritten }: FormProps) {
  const [edited, edit] = useState<string | null>(null);
  const [chosen, choose] = useState<number | null>(null);
  const [tokens, count] = useState(80);
  const act = useAct();
  const text = edited ?? (known.length > 0 ? known : FIRST_PROMPTS).join('\n');
  const prompts = [...new Set(text.split('\n').filter((line) => line !== ''))].slice(0, MOST_PROMPTS);
  const step = chosen !== null && checkpoints.includes(chosen) ? chosen : checkpoints.at(-1);
  const write = (steps: readonly number[]) => {
    const questions = steps.map((step) => ({ run, step, prompts, tokens }));
    return act.run(() => writeAll(questions, onWritten), 'Written: see below.');
  };
  return (
    <form class="card" aria-labelledby="samples" onSubmit={onSubmit(() => step !== undefined && write([step]))}>
      <h2 id="samples">Samples</h2>
      <p class="soft small">
        The server’s own processor writes them while the run goes on. The seed is always the same, so they differ only
        by checkpoint.
      </p>
      <div class="fields">
        <Choice
          label="Checkpoint"
          value={step ?? 0}
          options={checkpoints.map((each) => [each, `after ${counted(each, 'step')}`] as const)}
          choose={choose}
        />
        <Quantity
          label="Tokens"
          value={tokens}
          least={1}
          most={400}
          onInput={(wanted) => count(Math.round(wanted || 80))}
        />
      </div>
      <TextArea
        label={`Prompts, one a line, at most ${MOST_PROMPTS}`}
        value={text}
        onInput={edit}
        area={{ rows: 3, spellcheck: false }}
      />
      <div class="buttons">
        <button type="submit" class="primary" disabled={act.isOff || step === undefined || prompts.length === 0}>
          {act.busy ? 'Writing' : 'Write samples'}
        </button>
        <button
          type="button"
          disabled={act.isOff || checkpoints.length < 2 || prompts.length === 0}
          onClick={() => void write(checkpoints)}
        >
          Write for every checkpoint
        </button>
      </div>
      <Answer answer={act.answer} />
    </form>
  );
}

/** One after the other: the server writes one at a time. A checkpoint may be gone before its turn comes. */
async function writeAll(questions: readonly { step: number }[], onWritten: () => void): Promise<Result<unknown>> {
  const refused: string[] = [];
  for (const question of questions) {
    const answer = await tell('/api/operator/samples', question, z.unknown());
    if (!answer.ok)
      refused.push(questions.length > 1 ? `After ${question.step} steps: ${answer.reason}` : answer.reason);
    onWritten();
  }
  return refused.length > 0 ? refusal(refused.join(' ')) : success(null);
}

/** Of that very state; else of the newest one before it that was tested, which is then said. */
function heldOutText(evaluations: Samples['evaluations'], step: number): string {
  const newest = evaluations.findLast(([at]) => at <= step);
  if (newest === undefined) return lossText(null);
  const [at, loss] = newest;
  return at === step ? lossText(loss) : `${lossText(loss)} after ${counted(at, 'step')}`;
}

function SampleTable({ samples: { samples, evaluations } }: { samples: Samples }) {
  if (samples.length === 0) return null;
  const prompts = promptsOf(samples);
  const steps = [...new Set(samples.map(({ committedSteps }) => committedSteps))].sort((a, b) => b - a);
  const columns: readonly Column<number>[] = [
    { name: 'Step', look: 'head', of: countText },
    numbers(UNSEEN_LOSS, (step) => heldOutText(evaluations, step)),
    ...prompts.map(
      (prompt): Column<number> => ({
        name: `“${prompt}”`,
        look: 'words',
        of: (step) => samples.find((each) => each.committedSteps === step && each.prompt === prompt)?.text ?? '',
      }),
    ),
  ];
  return (
    <div class="card">
      <h2 id="side-by-side">Side by side</h2>
      <Stacks labelledBy="side-by-side" columns={columns} rows={steps} kind="samples" />
    </div>
  );
}
