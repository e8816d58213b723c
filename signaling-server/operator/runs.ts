/** The runs of a data directory as the dashboard lists them, and how an operator's draft becomes one of them. */
import { createHash } from 'node:crypto';
import { given, invariant, type Result, refusal, success } from '../../swarm/base.ts';
import { parameters, standingParameters } from '../../swarm/model/model.ts';
import { folderOf, type ListedRun, type RunDraft, runFileOfDraft } from '../../swarm/run/runDraft.ts';
import { modelOf, type RunFile } from '../../swarm/run/runFile.ts';
import { type Manifest, parseManifest, stateProblem, storeInitialState } from '../store/checkpointState.ts';
import { type DataDirectory, type RunContent, storeContent } from '../store/dataDirectory.ts';
import { parseDocument, type RunDocument } from '../store/runDocument.ts';
import { stepsOf } from '../store/runTime.ts';
import { CHAT_TEMPLATE_FILE } from '../texts/chatText.ts';
import { TOKENIZER_FILE } from '../texts/tokenizer.ts';
import { prepareTokens } from '../texts/tokens.ts';
import { seededWeights } from '../weights/weights.ts';
import { type DraftText, draftSource, draftText, withTextFiles } from './draftText.ts';
import { withoutFolders } from './modelFolders.ts';

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
        ...{ parameters: parameters(model), standing: standingParameters(model) },
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

/** A new run from a run of the store (its text or another; new weights, or those of a checkpoint), or from a model's folder. */
export async function createRun(
  data: DataDirectory,
  models: string | null,
  draft: RunDraft,
  nowMs: number,
): Promise<Result<string>> {
  const { store } = data;
  const source = await draftSource(data, models, draft);
  if (!source.ok) return source;
  const own = draft.text === null ? null : await draftText(data, draft.text, source.value);
  if (own?.ok === false) return own;
  const file = runFileOfDraft(draft, source.value.file, own?.value);
  if (!file.ok) return file;
  const { name } = file.value;
  const isTaken = refusal(`there is a run "${name}" already: choose another name`);
  if (store.run(name) !== null) return isTaken;
  const { document } = source.value;
  const drafted = { draft, file: file.value, own: own?.value ?? null, date: new Date(nowMs) };
  const content = document === null ? await folderContent(data, drafted) : await contentFrom(data, document, drafted);
  if (!content.ok) return refusal(withoutFolders(content.reason, models));
  // Two operators may have pressed at once: the second one finds the name taken.
  if (store.run(name) !== null) return isTaken;
  const [text, manifest] = [JSON.stringify(content.value.document), JSON.stringify(content.value.manifest)];
  const contentHash = createHash('sha256').update(text).update(manifest).digest('hex');
  store.addRun(name, contentHash, text, manifest, nowMs);
  return success(name);
}

interface Drafted {
  readonly draft: RunDraft;
  readonly file: RunFile;
  /** Null: the text of the run that it begins from. */
  readonly own: DraftText | null;
  readonly date: Date;
}

/** With the text, or the tokenizer, of a run that is there. */
async function contentFrom(
  data: DataDirectory,
  source: RunDocument,
  { draft, file, own, date }: Drafted,
): Promise<Result<RunContent>> {
  const manifest = await manifestOf(data, draft, source, file);
  if (!manifest.ok) return manifest;
  const tokens =
    own === null
      ? success(source)
      : await withTextFiles(data, own, (path) => prepareTokens(file, path, data.blobs, { date }));
  if (!tokens.ok) return tokens;
  const { evaluation, answers } = tokens.value;
  const document: RunDocument = {
    ...{ file, data: tokens.value.data, evaluation },
    tokenizer: own?.format === 'text' ? [] : source.tokenizer,
    ...given({ answers }),
    tensorNames: draft.model === 'same' ? source.tensorNames : null,
    licence: draft.model === 'same' ? source.licence : [],
    ...(file.train.adapter && source.base && { base: source.base }),
  };
  return success({ document, manifest: manifest.value });
}

/** As a run file beside that folder would have it; the run needs the folder no more. */
async function folderContent(data: DataDirectory, { draft, file, own, date }: Drafted): Promise<Result<RunContent>> {
  invariant(own, 'a run from a folder has a text of its own');
  const content = await withTextFiles(data, own, (path) =>
    storeContent(data, file, path, { date, progress: () => {} }),
  );
  if (!content.ok) return content;
  const { document, manifest } = content.value;
  const { tokenizer, chatTemplate } = document.file.data;
  const named = {
    ...document.file.data,
    tokenizer: tokenizer === 'bytes' ? tokenizer : TOKENIZER_FILE,
    ...(chatTemplate !== undefined && { chatTemplate: CHAT_TEMPLATE_FILE }),
  };
  const init = folderOf(draft.model) ?? document.file.init;
  return success({ document: { ...document, file: { ...document.file, init, data: named } }, manifest });
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
