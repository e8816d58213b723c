/**
 * The folders of models that `serve --models DIR` offers to the dashboard: which there are, and what a draft begins with in
 * one of them. A folder is known by the name that it (or a link to it) has in DIR; no path comes from a browser.
 */
import { readdirSync, realpathSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join, resolve, sep } from 'node:path';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { adapterTargets } from '../../swarm/model/adapter.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { parameters } from '../../swarm/model/model.ts';
import type { ListedModel } from '../../swarm/run/runDraft.ts';
import { parseRunFile, type RunFile } from '../../swarm/run/runFile.ts';
import { readJsonFile } from '../files/jsonFile.ts';
import type { RunDocument } from '../store/runDocument.ts';
import { TOKENIZER_FILE } from '../texts/tokenizer.ts';
import type { StoredFile } from '../texts/tokens.ts';
import { CONFIG_FILE, findingsOf } from './modelFindings.ts';

/** What a draft begins from: a run of the store, or a model's folder. */
export interface DraftSource {
  readonly name: string;
  readonly file: RunFile;
  /** The tokenizer's files that are to lie beside the draft's run file. */
  readonly files: readonly StoredFile[];
  /** How the draft's run file names a file of the tokenizer. */
  pathOf(file: string): string;
  /** What is in it; null: there is none. */
  beside(file: string): Promise<string | null>;
  /** Null: it is a folder. */
  readonly document: RunDocument | null;
}

/** What is wrong with DIR itself, in a sentence; null: nothing. */
export function modelsFault(directory: string): string | null {
  try {
    readdirSync(directory);
    return null;
  } catch {
    return `${directory} cannot be read: a folder with folders of models was expected`;
  }
}

/** A link counts as what it leads to. */
function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false; // there is none, or it is nobody's here
  }
}

/** Read anew each time: models come and go while a server runs. */
function foldersIn(directory: string | null): string[] {
  if (directory === null || modelsFault(directory) !== null) return [];
  return readdirSync(directory)
    .filter((name) => isFile(join(directory, name, CONFIG_FILE)))
    .toSorted();
}

/** One after the other: each opens its tokenizer. */
export async function listedModels(directory: string | null): Promise<ListedModel[]> {
  const models: ListedModel[] = [];
  for (const name of foldersIn(directory)) models.push(await listedModel(resolve(directory ?? '', name), name));
  return models;
}

async function listedModel(folder: string, name: string): Promise<ListedModel> {
  const found = await findingsOf(folder);
  const wrong = found.ok ? found.value.findings.find(({ ok }) => !ok)?.finding : found.reason;
  const problem = wrong?.replaceAll(`${folder}${sep}`, '').replaceAll(folder, name) ?? null;
  const config = await readJsonFile(join(folder, CONFIG_FILE), 'a config.json of a model');
  const model = config.ok ? modelFromConfig(config.value) : config;
  if (!model.ok) return { name, problem, model: null };
  const { family, layers, width, positions } = model.value;
  const targets = adapterTargets(model.value);
  return {
    ...{ name, problem },
    model: { family, layers, width, positions, parameters: parameters(model.value), targets },
  };
}

/** Learning rate, steps and the like are the draft's. */
const TRAIN = {
  ...{ steps: 1, globalBatchSize: 1, sequenceLength: 1, gradientClipNorm: 1 },
  optimizer: { type: 'adamw', learningRate: 1e-4, betas: [0.9, 0.999], epsilon: 1e-8 },
};

/** A draft's source that is a folder: its weights and, where it has one, its tokenizer. */
export async function folderSource(directory: string | null, name: string): Promise<Result<DraftSource>> {
  if (directory === null || !foldersIn(directory).includes(name))
    return refusal(`there is no model "${name}" on this server any more: choose a model of the list`);
  const folder = resolve(directory, name);
  const config = await readJsonFile(join(folder, CONFIG_FILE), 'a config.json of a model');
  if (!config.ok) return refusal(withoutFolders(config.reason, directory));
  const hub = hubNameOf(realpathSync(folder));
  // A config says where its model was made, which may be its parent's name. It is parsed below.
  const model = { ...(config.value as object), ...(hub !== null && { _name_or_path: hub }) };
  const pathOf = (file: string): string => join(folder, file);
  const tokenizer = isFile(pathOf(TOKENIZER_FILE)) ? pathOf(TOKENIZER_FILE) : 'bytes';
  const data = { files: ['the draft'], tokenizer };
  const file = parseRunFile({ name: 'draft', model, init: folder, data, train: TRAIN }, 'the draft');
  if (!file.ok) return file;
  const beside = (wanted: string): Promise<string | null> =>
    isFile(pathOf(wanted)) ? readFile(pathOf(wanted), 'utf8') : Promise.resolve(null);
  return success({ name, file: file.value, files: [], pathOf, beside, document: null });
}

/** A download in the cache of the Hub's client lies under the model's name there; null: another folder. */
function hubNameOf(folder: string): string | null {
  const [, owner, name] = /models--([^/\\]+?)--([^/\\]+)[/\\]snapshots[/\\]/.exec(`${folder}${sep}`) ?? [];
  return owner === undefined ? null : `${owner}/${name}`;
}

/** Where models lie is nobody's affair but the server's. */
export const withoutFolders = (reason: string, directory: string | null): string =>
  directory === null ? reason : reason.replaceAll(`${resolve(directory)}${sep}`, '');
