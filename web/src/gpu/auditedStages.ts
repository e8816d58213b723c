/**
 * One step of a model in two stages, computed on a device by the stages that donors run, as an audit looks at it: for tests
 * and measurements of what honest differences are.
 */
import type { AuditCase, AuditedMicroBatch, BlockPart, SentTensor } from '../../../swarm/audit/auditCase.ts';
import { at, normal, type Range, seededRandom } from '../../../swarm/base.ts';
import { initialValues } from '../../../swarm/model/initialValues.ts';
import { type BlockName, block, blocksOfStage, type Model } from '../../../swarm/model/model.ts';
import { NO_TARGET, type WindowRows } from '../../../swarm/run/data.ts';
import { gradientGain, type WireEncoding } from '../../../swarm/wire.ts';
import type { Reading, Stream } from '../executor/engine.ts';
import type { Gpu } from './device.ts';
import { createStage, type GpuStage } from './stage.ts';

/** What two stages compute. */
export interface AuditedSetting {
  readonly model: Model;
  readonly sequence: number;
  readonly wire: WireEncoding;
  /** Of each micro-batch. */
  readonly samples: readonly number[];
  /** Windows are filled with examples, and not to the end. */
  readonly hasExamples?: boolean;
  /** Weights as so much training would have them. */
  readonly spread?: number;
}

function rowsOf({ model, sequence, hasExamples }: AuditedSetting, samples: number, seed: number): WindowRows {
  const random = seededRandom(seed);
  const draw = () => Uint32Array.from({ length: samples * sequence }, () => Math.floor(random() * model.vocabulary));
  const [ids, targets] = [draw(), draw()];
  if (!hasExamples) return { ids, targets, firstRows: null };
  const firstRows = ids.map((_, row) => (row % sequence < 5 ? 0 : 5));
  return {
    ids,
    firstRows,
    targets: targets.map((id, row) => (row % sequence < 3 || row % sequence > sequence - 3 ? NO_TARGET : id)),
  };
}

const copied = (reading: Reading): Promise<Float32Array<ArrayBuffer>> => reading.take((values) => values.slice());

const valuesOf = ({ model, spread = 0 }: AuditedSetting, name: BlockName): Float32Array => {
  const random = seededRandom(model.blocks.findIndex((one) => one.name === name) + 1);
  return initialValues(model, name, 3).map((value) => value + spread * normal(random));
};

async function stageOf(gpu: Gpu, setting: AuditedSetting, layers: Range): Promise<GpuStage> {
  const { model, sequence, wire, samples } = setting;
  const size = { layers, samples: Math.max(...samples), sequence, slots: samples.length, wires: [wire] };
  const globalBatch = samples.reduce((sum, count) => sum + count, 0);
  const stage = await createStage(gpu, model, { size, globalBatch, sizes: [...new Set(samples)] });
  for (const { block: name, ranges } of blocksOfStage(model, layers))
    for (const range of ranges) stage.writeValues(name, range, valuesOf(setting, name).slice(...range));
  return stage;
}

async function sumsOf(stage: GpuStage, model: Model, layers: Range): Promise<BlockPart[]> {
  const sums: BlockPart[] = [];
  for (const { block: name, ranges } of blocksOfStage(model, layers))
    for (const range of ranges)
      sums.push({ block: name, range, values: await copied(await stage.readGradient(name, [range])) });
  return sums;
}

interface Passed {
  readonly first: AuditedMicroBatch;
  readonly second: AuditedMicroBatch;
}

/** Honest steps in two stages on one device, each with rows of its own, and what an audit of each stage looks at. */
export class AuditedStages {
  readonly #setting: AuditedSetting;
  readonly #layers: readonly [Range, Range];
  readonly #stages: readonly [GpuStage, GpuStage];

  private constructor(setting: AuditedSetting, layers: readonly [Range, Range], stages: readonly [GpuStage, GpuStage]) {
    this.#setting = setting;
    this.#layers = layers;
    this.#stages = stages;
  }

  static async open(gpu: Gpu, setting: AuditedSetting): Promise<AuditedStages> {
    const { layers } = setting.model;
    const cut = Math.floor(layers / 2);
    const [first, second]: readonly [Range, Range] = [
      [0, cut],
      [cut, layers],
    ];
    const stages = [await stageOf(gpu, setting, first), await stageOf(gpu, setting, second)] as const;
    return new AuditedStages(setting, [first, second], stages);
  }

  close(): void {
    for (const stage of this.#stages) stage.close();
  }

  /** `number`: its rows follow from it. */
  async step(number = 0): Promise<[AuditCase, AuditCase]> {
    const { model, sequence, samples } = this.#setting;
    const [[first, second], [one, two]] = [this.#layers, this.#stages];
    const rows = samples.map((count, id) => rowsOf(this.#setting, count, number * samples.length + id + 1));
    const counted = rows.flatMap(({ targets }) => [...targets]).filter((target) => target !== NO_TARGET).length;
    for (const stage of [one, two]) stage.begin(0, 1, false, counted);
    const made = await this.#passes(rows);
    const of = async (stage: GpuStage, layers: Range, place: 'first' | 'second'): Promise<AuditCase> => ({
      ...{ model, layers, sequence, counted, isMeasured: true },
      gain: gradientGain(sequence * samples.reduce((sum, count) => sum + count, 0)),
      standing: [],
      values: blocksOfStage(model, layers).map(({ block: name }) => ({
        ...{ block: name, range: [0, block(model, name).elements] as const, values: valuesOf(this.#setting, name) },
      })),
      microBatches: made.map((pair) => pair[place]),
      sums: await sumsOf(stage, model, layers),
    });
    const cases: [AuditCase, AuditCase] = [await of(one, first, 'first'), await of(two, second, 'second')];
    return cases;
  }

  /** Each micro-batch there and back. */
  async #passes(rows: readonly WindowRows[]): Promise<readonly Passed[]> {
    const { wire, samples } = this.#setting;
    const [one, two] = this.#stages;
    const made: Passed[] = [];
    for (const [id, count] of samples.entries()) {
      const tokens = at(rows, id);
      const work = { microBatch: id, samples: count, tokens, evaluation: false };
      one.forward({ ...work, input: null, encoding: wire });
      const output = await copied(await one.readOutput(id));
      const stream = (words: Float32Array<ArrayBuffer>): Stream & SentTensor => ({ encoding: wire, words });
      two.forward({ ...work, input: stream(output) });
      const losses = await copied(await two.readLoss(id));
      two.backward(id, null, wire);
      const gradient = await copied(await two.readInputGradient(id));
      one.backward(id, stream(gradient));
      const lossSum = losses.reduce((sum, loss, row) => sum + (tokens.targets[row] === NO_TARGET ? 0 : loss), 0);
      const nothing = { input: null, gradient: null, output: null, inputGradient: null, lossSum: null };
      made.push({
        first: { ...nothing, id, samples: count, tokens, output: stream(output), gradient: stream(gradient) },
        second: {
          ...nothing,
          id,
          samples: count,
          tokens,
          input: stream(output),
          inputGradient: stream(gradient),
          lossSum,
        },
      });
    }
    return made;
  }
}
