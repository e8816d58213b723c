/**
 * `shoal bench trust`: honest work on the adapters at hand as audits judge it, and how many items each kind of cheat lasts. Work
 * is done by the stages that donors run, and judged by the code that a server judges with: there is no second judge here.
 */
import type { Command } from 'commander';
import { auditOutcome } from '../../swarm/audit/audit.ts';
import type { AuditCase, SentTensor } from '../../swarm/audit/auditCase.ts';
import { arrayOf, at, median, nearestRank, normal, type Random, seededRandom } from '../../swarm/base.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import type { Model } from '../../swarm/model/model.ts';
import type { WireEncoding } from '../../swarm/wire.ts';
import { type AuditedSetting, AuditedStages } from '../../web/src/gpu/auditedStages.ts';
import type { OpenDevice } from '../../web/src/gpu/device.ts';
import { gpuOf } from '../../web/src/gpu/engine.ts';
import { failed, need } from '../commands/failure.ts';
import { wholeNumber } from '../commands/options.ts';
import { adapterOption, type DawnAdapter, inDawn } from './benchDawn.ts';

interface Options {
  readonly items: number;
  readonly adapter: DawnAdapter | 'browser';
  readonly json?: boolean;
}

const SIZES = { positions: 32, vocabulary: 96 };
const CONFIGS = [
  {
    ...{ model_type: 'gpt2', n_layer: 2, n_head: 4, n_embd: 32 },
    ...{ n_positions: SIZES.positions, vocab_size: SIZES.vocabulary, resid_pdrop: 0, embd_pdrop: 0, attn_pdrop: 0 },
  },
  {
    ...{ model_type: 'llama', num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, hidden_size: 32 },
    ...{ intermediate_size: 88, max_position_embeddings: SIZES.positions, vocab_size: SIZES.vocabulary },
  },
];
const WIRES: readonly WireEncoding[] = ['f32', 'f16', 'int8'];
const SAMPLES = [2, 1];
/** Of a member at a stage in a step: each micro-batch there and back. */
const ITEMS = 2 * SAMPLES.length;
const FAMILIES = ['software', 'gpu'] as const;

/** The share that is audited where nobody says another one (run-file.md), and items that always are (SPEC.md, AU2). */
const [SHARE, FIRST_ITEMS] = [0.05, 10];
const DRAWS = 2_000;
/** Honest steps that are falsified. */
const FALSIFIED = 12;
const MOST_STEPS = 100_000;

interface HonestClass {
  readonly adapter: string;
  readonly kernels: (typeof FAMILIES)[number];
  readonly wire: WireEncoding;
  readonly items: number;
  readonly convicted: number;
  /** Of audits the one nearest to a conviction: its difference over the bound. */
  readonly nearest: number;
}

interface CheatFigures {
  readonly cheat: string;
  /** Of audits of such a step, those that convict. */
  readonly detected: number;
  /** Until convicted at the usual share, newcomers' items audited as ever; null: half, or 99 of 100, never were. */
  readonly medianItems: number | null;
  readonly p99Items: number | null;
  /** The same by (1 − a·p)ⁿ, of a donor who is not new; p: the share of its items that are false and found. */
  readonly expectedMedianItems: number | null;
  readonly expectedP99Items: number | null;
}

type Falsify = (honest: AuditCase, before: AuditCase, random: Random) => AuditCase;

interface Cheat {
  readonly name: string;
  readonly falsify: Falsify;
  /** Of its steps. */
  readonly share?: number;
  /** It begins once nobody takes it for new. */
  readonly isPatient?: true;
}

const scaledBy = (factor: number) => (words: Float32Array<ArrayBuffer>) => words.map((value) => value * factor);

const noisy =
  (share: number, random: Random) =>
  (words: Float32Array<ArrayBuffer>): Float32Array<ArrayBuffer> => {
    const size = Math.sqrt(words.reduce((sum, value) => sum + value * value, 0) / words.length);
    return words.map((value) => value + share * size * normal(random));
  };

const withSums = (
  one: AuditCase,
  change: (words: Float32Array<ArrayBuffer>, place: number) => Float32Array,
): AuditCase => ({
  ...one,
  sums: one.sums.map((part, place) => ({ ...part, values: change(part.values.slice(), place) })),
});

/** Each activation that it sends, of a stage that is not the last. */
const withOutputs = (one: AuditCase, change: (sent: SentTensor, place: number) => SentTensor): AuditCase => ({
  ...one,
  microBatches: one.microBatches.map((micro, place) => ({
    ...micro,
    output: micro.output && change(micro.output, place),
  })),
});

const CHEATS: readonly Cheat[] = [
  { name: 'gradients scaled by 1.05', falsify: (one) => withSums(one, scaledBy(1.05)) },
  { name: 'noise of 1 % in its sums', falsify: (one, _, random) => withSums(one, noisy(0.01, random)) },
  { name: 'sums of the other sign', falsify: (one) => withSums(one, scaledBy(-1)) },
  {
    name: 'a layer skipped',
    falsify: (one) => withSums(one, (words, place) => (place === one.sums.length - 1 ? words.fill(0) : words)),
  },
  {
    name: 'another micro-batch’s output',
    falsify: (one) => {
      const other = one.microBatches[0]?.output ?? null;
      return withOutputs(one, (sent) => ({
        ...sent,
        words: other ? sent.words.map((_, i) => other.words[i] ?? 0) : sent.words,
      }));
    },
  },
  { name: 'the step before', falsify: (one, before) => ({ ...one, sums: before.sums }) },
  {
    name: 'noise of 1 %, half of the time',
    share: 0.5,
    falsify: (one, _, random) => withSums(one, noisy(0.01, random)),
  },
  {
    name: 'noise of 1 %, once not new',
    isPatient: true,
    falsify: (one, _, random) => withSums(one, noisy(0.01, random)),
  },
  {
    name: 'one element ten times the largest',
    falsify: (one) =>
      withSums(one, (words, place) => {
        const largest = words.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
        return place === 0 ? words.fill(10 * largest, 0, 1) : words;
      }),
  },
  { name: 'drift of a ten-thousandth', falsify: (one) => withSums(one, scaledBy(1.0001)) },
];

const modelOf = (config: object): Model => need(modelFromConfig({ ...config }), failed);

async function honestClass(
  opened: OpenDevice,
  kernels: HonestClass['kernels'],
  wire: WireEncoding,
  items: number,
): Promise<{ readonly figures: HonestClass; readonly cases: readonly AuditCase[] }> {
  const cases: AuditCase[] = [];
  let [done, convicted, nearest] = [0, 0, 0];
  for (const config of CONFIGS) {
    const setting: AuditedSetting = { model: modelOf(config), sequence: 24, wire, samples: SAMPLES, spread: 0.1 };
    const stages = await AuditedStages.open(gpuOf({ ...opened, family: kernels }), setting);
    const enough = (items * (CONFIGS.indexOf(config) + 1)) / CONFIGS.length;
    for (let step = 0; done < enough || step < 2; step++)
      for (const one of await stages.step(step)) {
        const { agrees, worst } = auditOutcome(one);
        done += ITEMS;
        if (!agrees) convicted++;
        if (worst) nearest = Math.max(nearest, worst.relative / worst.bound);
        // Steps of one donor, one after the other: what it sends may be of the one before.
        if (config === CONFIGS[0] && cases.length <= FALSIFIED && one.layers[0] === 0) cases.push(one);
      }
    stages.close();
  }
  const adapter = opened.profile.description;
  return { figures: { adapter, kernels, wire, items: done, convicted, nearest }, cases };
}

/** Of falsified steps, the share that an audit convicts. */
function detected({ falsify }: Cheat, cases: readonly AuditCase[]): number {
  const random = seededRandom(42);
  const tried = cases.slice(1);
  const found = tried.filter((one, place) => !auditOutcome(falsify(one, at(cases, place), random)).agrees);
  return found.length / tried.length;
}

/** Items of a donor until it is convicted, as audits are drawn (AU2); infinite: it never is. */
function itemsUntilConvicted({ share = 1, isPatient }: Cheat, found: number, random: Random): number {
  if (found === 0) return Infinity;
  const chance = 1 - (1 - SHARE) ** ITEMS;
  for (let step = 0; step < MOST_STEPS; step++) {
    const before = step * ITEMS;
    const isNew = before < FIRST_ITEMS;
    const isFalse = random() < share && !(isPatient && isNew);
    if (isFalse && (isNew || random() < chance) && random() < found) return before + ITEMS;
  }
  return Infinity;
}

const finite = (items: number): number | null => (Number.isFinite(items) ? items : null);

function cheatFigures(cheat: Cheat, cases: readonly AuditCase[]): CheatFigures {
  const found = detected(cheat, cases);
  const random = seededRandom(7);
  const lasted = arrayOf(DRAWS, () => itemsUntilConvicted(cheat, found, random)).toSorted((a, b) => a - b);
  const perItem = SHARE * (cheat.share ?? 1) * found;
  const expected = (unseen: number): number | null =>
    perItem === 0 ? null : Math.ceil(Math.log(unseen) / Math.log(1 - perItem));
  return {
    ...{ cheat: cheat.name, detected: found },
    ...{ medianItems: finite(median(lasted) ?? Infinity), p99Items: finite(nearestRank(lasted, 0.99) ?? Infinity) },
    ...{ expectedMedianItems: expected(0.5), expectedP99Items: expected(0.01) },
  };
}

export function addTrustBench(bench: Command): void {
  bench
    .command('trust')
    .description('honest work as audits judge it, by kernels and wire, and how many items each kind of cheat lasts')
    .option('--items <n>', 'honest items in all', wholeNumber('--items', 24), 1_200)
    .addOption(adapterOption().choices(['dawn', 'gpu']).default('dawn'))
    .option('--json', 'one JSON document on standard output')
    .action(async ({ items, adapter, json }: Options) => {
      const each = items / (FAMILIES.length * WIRES.length);
      const driver = adapter === 'gpu' ? 'gpu' : 'dawn';
      const { classes, cheats } = await inDawn(driver, 'f32', async (opened) => {
        const found = [];
        for (const kernels of FAMILIES)
          for (const wire of WIRES) found.push(await honestClass(opened, kernels, wire, each));
        const cases = found[0]?.cases ?? [];
        return { classes: found.map(({ figures }) => figures), cheats: CHEATS.map((one) => cheatFigures(one, cases)) };
      });
      if (json) console.log(JSON.stringify({ audit: SHARE, classes, cheats }));
      else print(classes, cheats);
    });
}

function print(classes: readonly HonestClass[], cheats: readonly CheatFigures[]): void {
  for (const { adapter, kernels, wire, items, convicted, nearest } of classes)
    console.log(
      `${adapter}, ${kernels} kernels, ${wire}: ${items} honest items, ${convicted} convicted; the nearest ${nearest.toPrecision(2)} of the bound`,
    );
  const words = (items: number | null): string => (items === null ? 'never' : String(items));
  for (const { cheat, detected: found, ...figures } of cheats)
    console.log(
      `${cheat}: audits find ${Math.round(100 * found)} %; items until convicted ${words(figures.medianItems)}, 99 % ${words(figures.p99Items)} (one who is not new: ${words(figures.expectedMedianItems)}, ${words(figures.expectedP99Items)})`,
    );
}
