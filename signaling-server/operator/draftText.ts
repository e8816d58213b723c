/** The text that a draft is trained on, where an operator brought it along, and what the draft's run file has beside it. */
import { randomUUID } from 'node:crypto';
import { copyFile, mkdir, rm } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { folderOf, heldOutOf, type OwnText, type RunDraft, textFile } from '../../swarm/run/runDraft.ts';
import { type DataDirectory, DOWNLOADS_FOLDER } from '../store/dataDirectory.ts';
import { storedText } from '../store/exportRun.ts';
import { parseDocument } from '../store/runDocument.ts';
import type { Store } from '../store/store.ts';
import { CHAT_TEMPLATE_FILE } from '../texts/chatText.ts';
import { chatTemplateOf } from '../texts/template/chatTemplate.ts';
import { TOKENIZER_FILE } from '../texts/tokenizer.ts';
import { SPECIAL_TOKENS_FILE, TOKENIZER_CONFIG_FILE } from '../texts/tokenizerConfig.ts';
import type { StoredFile } from '../texts/tokens.ts';
import { type DraftSource, folderSource } from './modelFolders.ts';

export interface DraftText extends OwnText {
  /** What lies beside the draft's run file, by name. */
  readonly files: readonly StoredFile[];
  /** The one among them in which the chat template is; null: none is needed. */
  readonly templateFile: string | null;
}

/** `models`: the folder of models' folders, where there is one. */
export async function draftSource(
  { store, blobs }: DataDirectory,
  models: string | null,
  { source: name, model }: Pick<RunDraft, 'source' | 'model'>,
): Promise<Result<DraftSource>> {
  const folder = folderOf(model);
  if (folder !== null) return folderSource(models, folder);
  const row = store.run(name);
  if (row === null) return refusal(`there is no run "${name}" to take the text from`);
  const document = parseDocument(row.document);
  return success({
    ...{ name, file: document.file, files: document.tokenizer, document },
    pathOf: (file) => file,
    beside: (file) => storedText(document.tokenizer, blobs, file),
  });
}

/** Examples are read by the tokenizer of `source`, and chats by the template beside it; a text by that of a folder. */
export async function draftText(data: DataDirectory, name: string, source: DraftSource): Promise<Result<DraftText>> {
  const own = broughtFiles(data.store, name);
  if (!own.ok) return own;
  const { format } = own.value;
  if (format === 'text' && source.document !== null)
    return success({ ...own.value, tokenizer: 'bytes', tokens: 'bytes', templateFile: null });
  const files = [...own.value.files, ...source.files];
  const isBytes = source.file.data.tokenizer === 'bytes';
  const tokenizer = isBytes ? 'bytes' : source.pathOf(TOKENIZER_FILE);
  const readAs = { format, files, tokenizer, tokens: 'source' } as const;
  if (format !== 'chat') return success({ ...readAs, templateFile: null });
  const templateFile = await templateFileOf(source);
  if (!templateFile.ok) return templateFile;
  if (templateFile.value === null)
    return refusal(
      `chats need a chat template, and the tokenizer of ${source.name} came without one: begin from a run or a model whose tokenizer has one (${CHAT_TEMPLATE_FILE}, or in ${TOKENIZER_CONFIG_FILE}), or bring prompts with completions`,
    );
  const isNamed = isBytes ? { chatTemplate: source.pathOf(CHAT_TEMPLATE_FILE) } : {};
  return success({ ...readAs, ...isNamed, templateFile: templateFile.value });
}

export function broughtFiles(store: Store, name: string): Result<Pick<DraftText, 'format' | 'files'>> {
  const text = store.texts().find((known) => known.name === name);
  if (text === undefined) return refusal(`there is no text "${name}" here: choose one of the list`);
  const { format, hash, heldOutHash } = text;
  const files = [
    { name: textFile(name, format), hash },
    { name: heldOutOf(name), hash: heldOutHash },
  ];
  return success({ format, files });
}

/** Null: there is no template. */
async function templateFileOf({ beside }: DraftSource): Promise<Result<string | null>> {
  const template = await beside(CHAT_TEMPLATE_FILE);
  const found = chatTemplateOf({
    template,
    config: await beside(TOKENIZER_CONFIG_FILE),
    specialTokens: await beside(SPECIAL_TOKENS_FILE),
  });
  if (!found.ok) return found;
  return success(found.value === null ? null : template === null ? TOKENIZER_CONFIG_FILE : CHAT_TEMPLATE_FILE);
}

/** A text's files while `work` reads them: it is told where the draft's run file would be. */
export async function withTextFiles<T>(
  { directory, blobs }: Pick<DataDirectory, 'directory' | 'blobs'>,
  { files }: Pick<DraftText, 'files'>,
  work: (draftPath: string) => Promise<Result<T>>,
): Promise<Result<T>> {
  const folder = join(directory, DOWNLOADS_FOLDER, randomUUID());
  await mkdir(folder, { recursive: true });
  try {
    for (const { hash, name } of files) {
      const damage = await blobs.problem(hash);
      if (damage !== null) return refusal(damage);
      await copyFile(blobs.path(hash), join(folder, name));
    }
    const done = await work(join(folder, 'the draft'));
    // The folder says nothing to anybody, and is gone.
    return done.ok ? done : refusal(done.reason.replaceAll(`${folder}${sep}`, ''));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
