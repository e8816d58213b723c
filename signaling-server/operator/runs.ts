/** The runs of a data directory as the dashboard lists them, and how an operator's draft becomes one of them. */
import { createHash } from 'node:crypto';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { type ListedRun, type RunDraft, runFileOfDraft } from '../../swarm/run/runDraft.ts';
import { modelOf } from '../../swarm/run/runFile.ts';
import { type Manifest, parseManifest, stateProblem, storeInitialState } from '../store/checkpointState.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import { parseDocument, type RunDocument } from '../store/runDocument.ts';
import { stepsOf } from '../store/runTime.ts';
import { prepareTokens } from '../texts/tokens.ts';
import { seededWeights } from '../weights/weights.ts';
import { draftText, sourceOf, withTextFiles } from './draftText.ts';

export function listedRuns({ store }: DataDirectory): ListedRun[] {
  const beside = store.besideRuns();
  return store.runNames().flatMap((name) => {
    const row = store.run(name);
    if (row === null) return [];
    const { file, data } = parseDocument(row.document);
    const model = modelOf(file);
    const committedSteps = store.committedSteps(name);
    const evaluations = [...store.evaluations(name)];
    const samples = store.samples(name);
    return {
      ...{
        name,
        isActive: row.active && !beside.includes(name),
        isPaused: row.operatorPaused,
        createdAtMs: store.createdAtMs(name),
      },
      isBeside: beside.includes(name),
      ...{ committedSteps, steps: stepsOf(store, name, file.train), note: store.note(name) },
      loss: store.steps(name, committedSteps - 1)[0]?.loss ?? null,
      heldOutLoss: evaluations.at(-1)?.[1] ?? null,
      model: {
        ...{ family: model.family, layers: model.layers, width: model.width },
        parameters: model.blocks.reduce((sum, { elements }) => sum + elements, 0),
      },
      globalBatchSize: file.train.globalBatchSize,
      sequenceLength: file.train.sequenceLength,
      learningRate: file.train.optimizer.learningRate,
      dataTokens: data.countedRows ?? data.tokens,
      checkpoints: store.checkpoints(name).map((checkpoint) => ({
        ...checkpoint,
        samplesAfter: samples.filter((sample) => sample.committedSteps > checkpoint.committedSteps).length,
        evaluationsAfter: evaluations.filter(([steps]) => steps > checkpoint.committedSteps).length,
      })),
      formerCheckpoints: store.formerCheckpoints(name),
    };
  });
}

/** A new run with the source's text; its weights are new ones, or those of a checkpoint of the source. */
export async function createRun(data: DataDirectory, draft: RunDraft, nowMs: number): Promise<Result<string>> {
  const { store } = data;
  const source = sourceOf(store, draft.source);
  if (!source.ok) return source;
  const document = source.value;
  const own = draft.text === null ? null : await draftText(data, draft.text, document);
  if (own?.ok === false) return own;
  const file = runFileOfDraft(draft, document.file, own?.value);
  if (!file.ok) return file;
  const { name } = file.value;
  if (store.run(name) !== null) return refusal(`there is a run "${name}" already: choose another name`);
  const manifest = await manifestOf(data, draft, document, file.value);
  if (!manifest.ok) return manifest;
  const tokens =
    own === null
      ? success(document)
      : await withTextFiles(data, own.value, (path) =>
          prepareTokens(file.value, path, data.blobs, { date: new Date(nowMs) }),
        );
  if (!tokens.ok) return tokens;
  // Two operators may have pressed at once: the second one finds the name taken.
  if (store.run(name) !== null) return refusal(`there is a run "${name}" already: choose another name`);
  const { evaluation } = tokens.value;
  const made: RunDocument = {
    ...{ file: file.value, data: tokens.value.data, evaluation },
    tokenizer: own?.value.format === 'text' ? [] : document.tokenizer,
    tensorNames: draft.model === 'same' ? document.tensorNames : null,
    ...(file.value.train.adapter && document.base && { base: document.base }),
  };
  const text = JSON.stringify(made);
  const contentHash = createHash('sha256').update(text).update(JSON.stringify(manifest.value)).digest('hex');
  store.addRun(name, contentHash, text, JSON.stringify(manifest.value), nowMs);
  return success(name);
}

async function manifestOf(
  { store, blobs }: DataDirectory,
  { source, checkpoint, generation, seed }: RunDraft,
  document: RunDocument,
  file: RunDocument['file'],
): Promise<Result<Manifest>> {
  if (checkpoint === null) {
    const model = modelOf(file);
    return storeInitialState(blobs, model, seededWeights(model, seed));
  }
  const text = store.checkpoint(source, checkpoint, generation);
  if (text === null) return refusal(`checkpoint ${checkpoint} of ${document.file.name} is not kept any more`);
  const manifest = parseManifest(text);
  const problem = await stateProblem(blobs, manifest);
  if (problem !== null) return refusal(problem);
  // The values alone: a new optimizer has no moments yet.
  return success({ step: 0, shards: manifest.shards.map((shard) => ({ ...shard, moments: false })) });
}
