/** Which model a draft trains, and with which weights it begins: the source's, one of a list, or that of a folder on the server. */
import { bytesText, counted } from '../../../swarm/quantityText.ts';
import {
  type DraftAdapter,
  folderModel,
  folderOf,
  INITIAL_DRAFT,
  initialAdapter,
  type ListedModel,
  type ListedRun,
  MODEL_PRESETS,
  type ModelPreset,
  modelListSchema,
  type RunDraft,
} from '../../../swarm/run/runDraft.ts';
import { Choice, Quantity, Tick } from '../page/fields.tsx';
import { aboutText } from '../page/format.ts';
import { useAnswer } from './api.ts';
import type { DraftField } from './draftFields.ts';

/** What the parts of the form are given. */
export interface DraftProps {
  readonly draft: RunDraft;
  readonly set: (part: Partial<RunDraft>) => void;
  /** What a field's element says of what is wrong with it. */
  readonly marked: (field: DraftField) => {
    readonly id: string;
    readonly 'aria-invalid': true | undefined;
    readonly 'aria-describedby': string | undefined;
  };
}

type Shape = (typeof MODEL_PRESETS)[ModelPreset];

/** The layers of a transformer have twelve squares of its width. */
export const layerParameters = ({ n_layer, n_embd }: Shape): number => 12 * n_layer * n_embd ** 2;

/** Bytes a parameter while it is trained: its value, its gradient and two moments. */
const TRAINED_BYTES = 16;
/** Beside an adapter it only stands, as a float. */
const STANDING_BYTES = 4;

/** How large a model is, and what its donors need for it, in words. `own`: that of a run or a folder. Pure. */
export function modelText(
  model: RunDraft['model'],
  own: Pick<ListedRun['model'], 'layers' | 'width' | 'parameters' | 'standing'> | undefined,
): string {
  const shape = MODEL_PRESETS[model as ModelPreset] as Shape | undefined; // of the others the table has none
  if (shape !== undefined)
    return `${counted(shape.n_layer, 'layer')}, ${shape.n_embd} numbers wide. ${neededText(layerParameters(shape))} for its layers, and more for its vocabulary.`;
  if (own === undefined) return '';
  const { layers, width, parameters, standing } = own;
  const adapter = parameters === 0 ? ', and a little more for the adapter' : '';
  return `${counted(layers, 'layer')}, ${width} numbers wide. ${neededText(parameters, standing)}${adapter}.`;
}

const neededText = (trained: number, standing = 0): string =>
  `Its donors need about ${bytesText(trained * TRAINED_BYTES + standing * STANDING_BYTES)} of GPU memory together`;

/** A folder's, with the adapter that is drafted for it or all of its weights trained. */
function folderShape(model: NonNullable<ListedModel['model']>, isAdapted: boolean): ListedRun['model'] {
  const { parameters, ...shape } = model;
  return { ...shape, parameters: isAdapted ? 0 : parameters, standing: isAdapted ? parameters : 0 };
}

const PRESETS = Object.entries(MODEL_PRESETS).map(
  ([name, shape]) => [name as RunDraft['model'], `${name}, ${aboutText(layerParameters(shape))} parameters`] as const, // a key of the table
);

/** What a run of the source’s model may begin with. */
const weightsOf = (
  source: ListedRun | undefined,
): readonly (Pick<RunDraft, 'checkpoint' | 'generation'> & { readonly words: string })[] => [
  { checkpoint: null, words: 'new, from the seed' },
  ...(source?.checkpoints ?? []).map(({ committedSteps: checkpoint }) => ({
    checkpoint,
    words: `${source?.name} after ${counted(checkpoint, 'step')}`,
  })),
  ...(source?.formerCheckpoints ?? []).map(({ committedSteps: checkpoint, generation }) => ({
    ...{ checkpoint, generation },
    words: `${source?.name} after ${counted(checkpoint, 'step')}, from before it went back`,
  })),
];

interface ModelProps extends DraftProps {
  readonly runs: readonly ListedRun[];
}

export function ModelFields({ draft, set, marked, runs }: ModelProps) {
  const [{ models }] = useAnswer('/api/operator/models', modelListSchema, { models: [] }, '');
  const source = runs.find(({ name }) => name === draft.source);
  const chosen = models.find(({ name }) => name === folderOf(draft.model));
  const options = [['same' as const, `the same as ${draft.source}`] as const, ...folderChoices(models), ...PRESETS];
  return (
    <>
      <Choice
        class="wide"
        label="Model"
        value={draft.model}
        options={options}
        choose={(model) => set(modelChosen(draft, model, models))}
        select={marked('model')}
      />
      {folderOf(draft.model) === null ? (
        <WeightFields {...{ draft, set, marked, source }} />
      ) : (
        <AdapterFields {...{ draft, set, marked }} targets={chosen?.model?.targets ?? []} />
      )}
      <p class="note">
        {modelText(draft.model, chosen?.model ? folderShape(chosen.model, draft.adapter !== null) : source?.model)}
      </p>
      {models.map(
        ({ name, problem }) =>
          problem !== null && (
            <p key={name} class="note">
              {name} cannot be trained: {problem}
            </p>
          ),
      )}
    </>
  );
}

const folderChoices = (models: readonly ListedModel[]): (readonly [RunDraft['model'], string])[] =>
  models.flatMap(({ name, problem, model }) =>
    problem !== null || model === null
      ? []
      : [[folderModel(name), `${name}, its weights, ${aboutText(model.parameters)} parameters`] as const],
  );

/** Weights that have learnt much move slowly, those beside them less so. */
const [ALL_RATE, ADAPTER_RATE] = [2e-5, 2e-4];
const FOLDER_TOKENS = 256;
/** For the hundreds of examples that people write by hand. */
const FOLDER_SAMPLES = 8;

/** What the choice of a model changes in a draft. */
function modelChosen(
  { model: before, checkpoint }: Pick<RunDraft, 'model' | 'checkpoint'>,
  model: RunDraft['model'],
  models: readonly ListedModel[],
): Partial<RunDraft> {
  const own = models.find(({ name }) => name === folderOf(model))?.model;
  const { steps, globalBatchSize, learningRate, sequenceLength } = INITIAL_DRAFT;
  if (own)
    return {
      ...{ model, checkpoint: null, generation: undefined, adapter: initialAdapter(own.targets) },
      ...{ name: `${folderOf(model)}-adapter`, steps, globalBatchSize: FOLDER_SAMPLES },
      ...{ learningRate: ADAPTER_RATE, sequenceLength: Math.min(own.positions, FOLDER_TOKENS) },
    };
  return {
    ...{ model, adapter: null, checkpoint: model === 'same' ? checkpoint : null },
    ...(folderOf(before) !== null && { steps, globalBatchSize, learningRate, sequenceLength }),
  };
}

function WeightFields({ draft, set, marked, source }: DraftProps & { readonly source: ListedRun | undefined }) {
  const weights = weightsOf(source);
  return (
    <Choice
      class="wide"
      label="Weights"
      value={weights.findIndex(
        ({ checkpoint, generation }) => checkpoint === draft.checkpoint && generation === draft.generation,
      )}
      options={weights.map(({ words }, place) => [place, words] as const)}
      choose={(place) => {
        const { checkpoint = null, generation } = weights[place] ?? {};
        set({ checkpoint, generation, ...(checkpoint !== null && { model: 'same' }) });
      }}
      select={marked('checkpoint')}
    />
  );
}

const WHAT = [
  ['adapter', 'an adapter beside them (LoRA)'],
  ['all', 'all of them'],
] as const;

function AdapterFields({ draft, set, marked, targets }: DraftProps & { readonly targets: readonly string[] }) {
  const { adapter } = draft;
  const change = (part: Partial<DraftAdapter>): void => {
    if (adapter !== null) set({ adapter: { ...adapter, ...part } });
  };
  return (
    <>
      <Choice
        class="wide"
        label="Which weights are trained"
        value={adapter === null ? 'all' : 'adapter'}
        options={WHAT}
        choose={(what) =>
          set(
            what === 'all'
              ? { adapter: null, learningRate: ALL_RATE }
              : { adapter: initialAdapter(targets), learningRate: ADAPTER_RATE },
          )
        }
      />
      {adapter !== null && (
        <>
          <Quantity
            label="Rank"
            value={adapter.rank}
            least={1}
            onInput={(rank) => change({ rank })}
            input={marked('rank')}
          />
          <Quantity
            label="Alpha"
            value={adapter.alpha}
            least={0}
            onInput={(alpha) => change({ alpha })}
            input={marked('alpha')}
          />
          <fieldset class="whole targets" {...marked('targets')}>
            <legend>Modules that it changes</legend>
            {targets.map((name) => (
              <Tick
                key={name}
                checked={adapter.targets.includes(name)}
                onChange={(isOn) =>
                  change({ targets: targets.filter((each) => (each === name ? isOn : adapter.targets.includes(each))) })
                }
              >
                {name}
              </Tick>
            ))}
          </fieldset>
        </>
      )}
    </>
  );
}
