/**
 * A run as the store keeps it: the parsed run file, the lists of its tokens and the names its tensors had. With the
 * blobs it is everything a server needs to go on with the run without the files it came from.
 */

import { invariant } from '../../swarm/base.ts';
import { isRecorded, wholeRounds } from '../../swarm/islands/rounds.ts';
import type { RunFacts } from '../../swarm/messages/runFacts.ts';
import type { BaseBlock } from '../../swarm/run/basePieces.ts';
import { type TokenList, windowCount } from '../../swarm/run/data.ts';
import { keepsEnds, orderOf, type RunFile, stateWireOf } from '../../swarm/run/runFile.ts';
import type { BlobHash, BlobStore } from '../files/blobs.ts';
import type { StoredFile } from '../texts/tokens.ts';
import type { TensorNames } from '../weights/weights.ts';
import type { Store } from './store.ts';

export interface RunDocument {
  readonly file: RunFile;
  readonly data: TokenList;
  readonly evaluation: TokenList | null;
  /** What the model is asked at each evaluation (`KnownAnswer` in texts/tokens.ts), among the blobs. */
  readonly answers?: BlobHash;
  /** The tokenizer's files, none where a token is a byte, and the generation config and terms beside the first weights, among the blobs. */
  readonly tokenizer: readonly StoredFile[];
  /** Names of the init file by the model's names, for the export; null: the model's (Hugging Face's) own. */
  readonly tensorNames: TensorNames | null;
  /** The weights that stand beside an adapter, whose tensors `tensorNames` then names; absent: every weight is trained. */
  readonly base?: readonly BaseBlock[];
  /** Lines of the card of the first weights, `license: …`. */
  readonly licence: readonly string[];
}

/** The store's own words: written by `JSON.stringify` of the same type, migrated with the schema. */
export const parseDocument = (text: string): RunDocument =>
  ({ tokenizer: [], licence: [], ...JSON.parse(text) }) as RunDocument;

/** The document of a run that the store has. */
export function storedDocument(store: Store, name: string): RunDocument {
  const row = store.run(name);
  invariant(row, `the store has a run ${name}`);
  return parseDocument(row.document);
}

const listHashes = ({ shards, counted }: TokenList): readonly BlobHash[] =>
  counted === undefined ? shards : [...shards, counted];

/** The blobs of its tokens, its questions, its tokenizer and its base. */
export const documentHashes = ({ data, evaluation, answers, tokenizer, base = [] }: RunDocument): BlobHash[] => [
  ...listHashes(data),
  ...(evaluation === null ? [] : listHashes(evaluation)),
  ...(answers === undefined ? [] : [answers]),
  ...tokenizer.map(({ hash }) => hash),
  ...base.flatMap(({ pieces }) => pieces),
];

/** How many rows of each window count; null: all of them, of text. */
export interface WindowCounts {
  readonly data: Uint32Array | null;
  readonly evaluation: Uint32Array | null;
}

export async function windowCounts(
  { data, evaluation }: RunDocument,
  blobs: Pick<BlobStore, 'read'>,
): Promise<WindowCounts> {
  const countsOf = async (list: TokenList | null): Promise<Uint32Array | null> =>
    list?.counted === undefined ? null : new Uint32Array(new Uint8Array(await blobs.read(list.counted)).buffer);
  return { data: await countsOf(data), evaluation: await countsOf(evaluation) };
}

/** What a donor is told of the run. */
export const factsOf = ({ file, data, evaluation, base }: RunDocument): RunFacts => ({
  name: file.name,
  model: file.model,
  train: withoutPath(file.train),
  data,
  order: orderOf(file),
  evaluation,
  wire: file.precision.wire,
  compute: file.precision.compute,
  ...stateWireOf(file),
  ...(keepsEnds(file) && { ends: 'own' as const }),
  ...(base && { base }),
});

/** Where a file lies is nobody's affair but the server's. */
function withoutPath({ adapter, ...train }: RunFile['train']): RunFile['train'] {
  if (adapter === undefined) return train;
  const { init: _, ...own } = adapter;
  return { ...train, adapter: own };
}

/** How often, and over how many windows, the held-out loss is taken: with islands, at meetings. */
export function windowsOf({ file, evaluation }: RunDocument): { everySteps: number; windows: number } | null {
  if (file.evaluation === null || evaluation === null) return null;
  const windows = windowCount(evaluation, file.train.sequenceLength);
  return { everySteps: wholeRounds(file.train, file.evaluation.everySteps), windows };
}

/** Whether a held-out loss belongs to the state after so many steps, of `steps` that will be done. */
export function isEvaluationDue(
  document: RunDocument,
  committedSteps: number,
  steps: number,
  evaluations: ReadonlyMap<number, number>,
): boolean {
  const every = windowsOf(document)?.everySteps;
  if (every !== undefined && isRecorded(document.file.train)) {
    const before = [...evaluations.keys()].findLast((count) => count < committedSteps) ?? Number.NEGATIVE_INFINITY;
    return committedSteps >= steps || committedSteps - before >= every;
  }
  return every !== undefined && (committedSteps % every === 0 || committedSteps >= steps);
}
