/** What an audit is done with, out of its evidence, the plan and the run's tokens: plain data that a thread can be given. */

import type { AuditCase, AuditedMicroBatch, BlockPart, SentTensor } from '../../swarm/audit/auditCase.ts';
import { at, got, type Range } from '../../swarm/base.ts';
import type { Effect } from '../../swarm/coordinator/events.ts';
import type { Model } from '../../swarm/model/model.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { distinctIds, runsOfRows, spreadRows } from '../../swarm/plan/tokenRows.ts';
import {
  decodeShard,
  shardsOfWindow,
  type TokenIds,
  type WindowRows,
  windowCount,
  windowOfSample,
  windowRows,
} from '../../swarm/run/data.ts';
import { orderOf, type RunFile } from '../../swarm/run/runFile.ts';
import { stepSchedule } from '../../swarm/schedule/lower.ts';
import { policyOf } from '../../swarm/schedule/ownOrder.ts';
import type { EvidencePiece } from '../../swarm/ways/evidence.ts';
import type { TensorName } from '../../swarm/ways/passage.ts';
import { gradientGain } from '../../swarm/wire.ts';
import type { BlobStore } from '../files/blobs.ts';
import { baseParts } from '../store/baseStore.ts';
import type { RunDocument } from '../store/runDocument.ts';

export type AskedAudit = Extract<Effect, { type: 'audit' }>;

/** What came of one audit's evidence. */
export interface Collected {
  readonly asked: AskedAudit;
  readonly plan: Plan;
  readonly pieces: readonly EvidencePiece[];
  /** By their places; null: not here yet. */
  readonly bodies: (Buffer | null)[];
}

/** The model is made anew where the audit is done. */
export interface AuditTask extends Omit<AuditCase, 'model'> {
  readonly file: Pick<RunFile, 'model' | 'train'>;
}

interface Run {
  readonly document: RunDocument;
  readonly model: Model;
  readonly blobs: Pick<BlobStore, 'read' | 'readRange'>;
}

export async function auditTask(found: Collected, run: Run): Promise<AuditTask> {
  const { asked, plan, pieces } = found;
  const { stage, peer, isMeasured, counted } = asked;
  const { train, model } = run.document.file;
  const { layers } = at(plan.stages, stage);
  const samplesOf = new Map(plan.microBatches.map(({ id, samples }) => [id, samples]));
  const order = got(stepSchedule(plan), peer).flatMap((action) =>
    action.op === 'B' && action.stage === stage ? action.microBatch : [],
  );
  const isEnd = stage === 0 || stage === plan.stages.length - 1 || run.document.data.kind === 'rows';
  const microBatches: AuditedMicroBatch[] = [];
  for (const id of order) {
    const samples = got(samplesOf, id);
    const first = asked.number * train.globalBatchSize;
    const tokens = isEnd ? await rowsOf([first + samples[0], first + samples[1]], run) : null;
    const sent = (kind: TensorName['kind'], to: number): SentTensor | null => sentTensor(found, kind, to, id);
    const back = sent('gradient', stage - 1);
    microBatches.push({
      ...{ id, samples: samples[1] - samples[0], tokens },
      ...{ input: sent('activation', stage), output: sent('activation', stage + 1) },
      ...{ gradient: sent('gradient', stage), inputGradient: isOrdered(plan, back) ? back : null },
      lossSum: asked.losses.find(({ microBatch }) => microBatch === id)?.lossSum ?? null,
    });
  }
  const ids = distinctIds(microBatches.flatMap(({ tokens }) => [...(tokens?.ids ?? [])]));
  const parts = (kind: TensorName['kind']): BlockPart[] =>
    pieces.flatMap(({ tensor: { index, range, ...tensor }, table }, place) => {
      if (tensor.kind !== kind) return [];
      const [{ name }, values] = [at(run.model.blocks, index), floatsOf(found, place)];
      if (!table) return { block: name, range, values };
      return spreadRows(runsOfRows({ range, table }, run.model.width, ids), values).map((row) => ({
        block: name,
        ...row,
      }));
    });
  return {
    ...{ file: { model, train }, layers, sequence: train.sequenceLength, isMeasured, counted },
    gain: gradientGain(train.globalBatchSize * train.sequenceLength),
    ...{ values: parts('values'), standing: await baseParts(run.blobs, run.document, layers) },
    ...{ sums: parts('slice'), microBatches },
  };
}

/** What rounding to int8 misses goes on to the next micro-batch: the order of their backwards has to be known. */
const isOrdered = (plan: Plan, sent: SentTensor | null): boolean =>
  sent?.encoding !== 'int8' || policyOf(plan) === null;

function sentTensor(found: Collected, kind: TensorName['kind'], to: number, id: number): SentTensor | null {
  const place = found.pieces.findIndex(
    ({ tensor }) => tensor.kind === kind && tensor.stage === to && tensor.index === id,
  );
  const piece = found.pieces[place];
  return piece ? { encoding: piece.tensor.encoding ?? 'f32', words: floatsOf(found, place) } : null;
}

function floatsOf({ bodies }: Collected, place: number): Float32Array {
  const { buffer, byteOffset, length } = at(bodies, place) ?? Buffer.alloc(0);
  return new Float32Array(buffer.slice(byteOffset, byteOffset + length));
}

/** Samples numbered over the whole run, side by side. */
async function rowsOf([from, to]: Range, { document, model, blobs }: Run): Promise<WindowRows> {
  const { data, file } = document;
  const { sequenceLength } = file.train;
  const windows = windowCount(data, sequenceLength);
  const rows: WindowRows[] = [];
  for (let sample = from; sample < to; sample++) {
    const window = windowOfSample(orderOf(file), sample, windows);
    const [first, last] = shardsOfWindow(data, window, sequenceLength);
    const shards = new Map<number, TokenIds>();
    for (let index = first; index < last; index++) {
      const { buffer, byteOffset, length } = await blobs.read(at(data.shards, index));
      shards.set(index, decodeShard(buffer.slice(byteOffset, byteOffset + length), data.bytesPerToken));
    }
    rows.push(
      windowRows((index) => got(shards, index), data, window, { sequenceLength, vocabulary: model.vocabulary }),
    );
  }
  return {
    ids: joined(rows.map(({ ids }) => ids)),
    targets: joined(rows.map(({ targets }) => targets)),
    firstRows: data.kind === 'rows' ? joined(rows.flatMap(({ firstRows }) => firstRows ?? [])) : null,
  };
}

const joined = (parts: readonly Uint32Array[]): Uint32Array => Uint32Array.from(parts.flatMap((part) => [...part]));
