/** The README.md of an export: what the model is, how it came to be, how to use it. Pure. */

import { EMPTY_CARD, type RunCard } from '../../swarm/messages/about.ts';
import { secondsText } from '../../swarm/quantityText.ts';
import { stepTargets, type TokenList } from '../../swarm/run/data.ts';
import type { RunFile } from '../../swarm/run/runFile.ts';

interface CardFacts {
  readonly file: RunFile;
  readonly data: TokenList;
  readonly step: number;
  readonly parameters: number;
  /** Most tokens that the model sees at once. */
  readonly positions: number;
  /** An adapter that was merged into its base. */
  readonly isMerged?: boolean;
  readonly loss: number | null;
  readonly heldOutLoss: number | null;
  readonly card: RunCard | null;
  /** `RunDocument.licence`. */
  readonly licence: readonly string[];
  /** What the initial weights and these ones write after the same prompts. */
  readonly samples: readonly { readonly prompt: string; readonly before: string; readonly after: string }[];
}

const EXAMPLE_TOKENS = 80;
/** A tokenizer makes at most a token of each letter, and may put some of its own around. */
const OWN_TOKENS = 4;

/** A prompt, and how much more the model has positions for. */
function example(tokenizer: string, positions: number): { readonly prompt: string; readonly tokens: number } {
  const own = tokenizer === 'bytes' ? 0 : OWN_TOKENS;
  const prompt = positions > 'The '.length + own ? 'The ' : 'T';
  return { prompt, tokens: Math.max(1, Math.min(EXAMPLE_TOKENS, positions - prompt.length - own)) };
}

/** What is somebody's own words stands as text: no line of it begins a block, no sign of it is markup. */
const plain = (text: string): string =>
  text.replaceAll(/\s+/g, ' ').replaceAll(/[\\`*_{}[\]<>#|]/g, (sign) => `\\${sign}`);

export function modelCard(facts: CardFacts): string {
  const { file, data: list, step, parameters, loss, heldOutLoss, card } = facts;
  const { train, data } = file;
  const tokens = Math.round(step * stepTargets(list, train));
  const own = card ?? EMPTY_CARD;
  const losses = [
    ...(loss === null ? [] : [`${loss.toFixed(3)} on the text it learns from`]),
    ...(heldOutLoss === null ? [] : [`${heldOutLoss.toFixed(3)} on text it has never seen`]),
  ];
  return [
    ...frontOf(facts),
    `# ${plain(titleOf(facts))}`,
    '',
    ...(own.purpose === '' ? [] : [plain(own.purpose), '']),
    `${isAdapter(facts) ? 'An adapter of a language model' : 'A language model'} with ${parameters.toLocaleString('en')} parameters, trained with Shoal on GPUs that people lent in their browsers.`,
    '',
    ...baseLines(facts),
    `- Steps: ${step.toLocaleString('en')}${train.budget ? ` in ${secondsText(train.budget.seconds)}` : ` of ${train.steps.toLocaleString('en')}`}, ${tokens.toLocaleString('en')} tokens of text in all`,
    ...(losses.length === 0
      ? []
      : [`- Loss, in nats a ${train.beta === undefined ? 'token' : 'preference pair'}: ${losses.join(', ')}`]),
    ...(own.by === '' ? [] : [`- By: ${plain(own.by)}`]),
    `- Text: ${own.text === '' ? `${data.files.length} ${data.files.length === 1 ? 'file' : 'files'}` : plain(own.text)}, read as ${data.tokenizer === 'bytes' ? 'bytes' : 'the tokens of tokenizer.json'}`,
    ...termsOf(facts),
    ...(own.link === '' ? [] : [`- More: <${own.link.replaceAll(/[<>\s]/g, '')}>`]),
    '',
    ...usage(facts),
    ...samplesOf(facts),
    'It is small, and it makes things up. Nobody has tested it for anything but its loss.',
    '',
  ].join('\n');
}

/**
 * The weights are float32; a config of a model that was published in halves says that it has those, and transformers 5
 * rounds to what the config says. Older versions know the argument by this name alone, that one by this one too.
 */
function asFloat32({ dtype, torch_dtype }: RunFile['model']): string[] {
  const said = dtype ?? torch_dtype ?? 'float32';
  return said === 'float32' ? [] : ['torch_dtype="float32"'];
}

const isAdapter = ({ file, isMerged = false }: CardFacts): boolean => file.train.adapter !== undefined && !isMerged;

/** How its config calls the base; null: it does not. */
function baseName({ model: { _name_or_path: name } }: RunFile): string | null {
  return typeof name === 'string' && name !== '' ? name : null;
}

/** Of a name at the Hub. */
const HUB_NAME = /^[\w.-]+\/[\w.-]+$/;

function frontOf(facts: CardFacts): string[] {
  const { file } = facts;
  const base = typeof file.init === 'string' ? baseName(file) : null;
  return [
    '---',
    `library_name: ${isAdapter(facts) ? 'peft' : 'transformers'}`,
    'pipeline_tag: text-generation',
    ...(base !== null && HUB_NAME.test(base) ? [`base_model: ${base}`] : []),
    ...facts.licence,
    '---',
    '',
  ];
}

/** What the card of the first weights calls their licence; null: it does not. */
function baseLicence({ licence }: CardFacts): string | null {
  const of = (key: string): string | undefined =>
    licence.find((line) => line.startsWith(`${key}: `))?.slice(`${key}: `.length);
  return of('license_name') ?? of('license') ?? null;
}

const isUnder = (facts: CardFacts, family: string): boolean =>
  baseLicence(facts)?.toLowerCase().includes(family) === true;

/** Llama's terms want its name first. */
const titleOf = (facts: CardFacts): string =>
  isUnder(facts, 'llama') && !/^llama/i.test(facts.file.name) ? `Llama-${facts.file.name}` : facts.file.name;

/** Those of whoever trained it, and those of the weights that it began with. */
function termsOf(facts: CardFacts): string[] {
  const own = facts.card?.licence ?? '';
  const base = baseLicence(facts);
  return [
    `- Licence: ${own === '' ? 'not said by who trained it' : plain(own)}${base === null ? '' : `; of the weights that it began with: ${plain(base)}`}`,
    ...(isUnder(facts, 'llama') ? ['- Built with Llama'] : []),
    ...(isUnder(facts, 'gemma')
      ? ['- Gemma is provided under and subject to the Gemma Terms of Use found at <https://ai.google.dev/gemma/terms>']
      : []),
  ];
}

const MOST_SAMPLES = 3;
const SAMPLE_LETTERS = 300;

function samplesOf({ samples }: CardFacts): string[] {
  const cut = (text: string): string => plain([...text].slice(0, SAMPLE_LETTERS).join(''));
  return samples
    .slice(0, MOST_SAMPLES)
    .flatMap(({ prompt, before, after }) => [
      `After “${cut(prompt)}” it writes, before the training and after it:`,
      '',
      `- ${cut(before)}`,
      `- ${cut(after)}`,
      '',
    ]);
}

/** What the adapter is of, and how it is added. */
function baseLines({ file, isMerged = false }: CardFacts): string[] {
  const { adapter } = file.train;
  if (adapter === undefined) return [];
  const base = baseName(file) ?? (typeof file.init === 'string' ? `the weights of ${file.init}` : 'random weights');
  const { rank, alpha, targets, rslora } = adapter;
  const words = `LoRA of rank ${rank}, alpha ${alpha}${rslora ? ', scaled by its root' : ''}, of ${targets.join(', ')}`;
  return [`- Base: ${plain(base)}`, `- Adapter: ${plain(words)}${isMerged ? '; merged into the base here' : ''}`];
}

function usage(facts: CardFacts): string[] {
  const { file, positions } = facts;
  const { prompt, tokens } = example(file.data.tokenizer, positions);
  const loads = (path: string): string => [JSON.stringify(path), ...asFloat32(file.model)].join(', ');
  const model = isAdapter(facts)
    ? [
        'from peft import PeftModel',
        'from transformers import AutoModelForCausalLM, AutoTokenizer',
        '',
        `base = AutoModelForCausalLM.from_pretrained(${loads(baseName(file) ?? 'BASE')})  # the model that it was trained for`,
        'model = PeftModel.from_pretrained(base, ".")',
      ]
    : [
        'from transformers import AutoModelForCausalLM, AutoTokenizer',
        '',
        `model = AutoModelForCausalLM.from_pretrained(${loads('.')})`,
      ];
  return [
    '```python',
    ...model,
    'tokenizer = AutoTokenizer.from_pretrained(".")',
    `tokens = tokenizer("${prompt}", return_tensors="pt")`,
    `print(tokenizer.decode(model.generate(**tokens, max_new_tokens=${tokens}, do_sample=True)[0]))`,
    '```',
    '',
  ];
}
