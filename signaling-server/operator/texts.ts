/**
 * Texts that operators brought along, to train runs on: files beside the store, each with its end cut off to be held
 * out. They are read as bytes; what is no UTF-8 is a picture or a program chosen by mistake, or needs another tool first.
 */
import { isUtf8 } from 'node:buffer';
import { mkdir, readdir, rename, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { heldOutOf, type ListedText, TEXT_NAME, textFile } from '../../swarm/run/runDraft.ts';
import { perMinute, problem } from '../http/calls.ts';
import { wallMs } from '../monitoring/clock.ts';
import { audit } from '../run/history.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import { deed, deedText } from './deed.ts';
import type { OperatorContext } from './operatorContext.ts';

const TEXT_BYTES_LIMIT = 64 * 1024 * 1024;
/** Less is no text to train on. */
const LEAST_BYTES = 2_000;
const MOST_TEXTS = 100;
const UPLOADS_PER_MINUTE = 20;
/** Small: a held-out loss should cost few steps' time. */
const HELD_OUT_SHARE = 0.02;
const HELD_OUT_BYTES = 8_000;

const textQuery = z.object({ name: z.string().regex(TEXT_NAME) });

/** Registered behind the session and the origin check. */
export function addTextUpload(api: FastifyInstance, { run, data, session }: OperatorContext): void {
  api.addContentTypeParser('application/octet-stream', { parseAs: 'buffer' }, (_request, body, done) =>
    done(null, body),
  );
  const textLimits = { ...perMinute(UPLOADS_PER_MINUTE), bodyLimit: TEXT_BYTES_LIMIT };
  api.post('/api/operator/texts', textLimits, async (request, reply) => {
    const query = textQuery.safeParse(request.query);
    if (!query.success || !Buffer.isBuffer(request.body))
      return problem(reply, 400, 'expected a text, named by letters, digits, "_" and "-"');
    const saved = await saveText(data, query.data.name, request.body);
    const by = session.nameOf(request.headers.cookie);
    const said = deedText(deed('bring', 'brought', `text ${query.data.name} along`), saved.ok ? null : saved.reason);
    audit(data.store, run.name, said, by, run.committedSteps, wallMs());
    return saved.ok ? { ok: true, value: saved.value } : problem(reply, 409, saved.reason);
  });
}

const folderOf = ({ directory }: Pick<DataDirectory, 'directory'>): string => join(directory, 'texts');

/** Where a draft's run file would be: its paths begin here. */
export const draftPath = (data: Pick<DataDirectory, 'directory'>): string => join(folderOf(data), 'draft');

async function saveText(data: DataDirectory, name: string, bytes: Buffer): Promise<Result<ListedText>> {
  if (bytes.length < LEAST_BYTES)
    return refusal(`${bytes.length} bytes are too few to train on: expected ${LEAST_BYTES} or more`);
  if (!isUtf8(bytes) || bytes.includes(0)) return refusal('this file is not text: expected one in UTF-8');
  const known = await listedTexts(data);
  if (known.some((text) => text.name === name))
    return refusal(`there is a text "${name}" already: choose it in the list, or give the file another name`);
  if (known.length >= MOST_TEXTS) return refusal(`the server keeps at most ${MOST_TEXTS} texts`);
  const folder = folderOf(data);
  await mkdir(folder, { recursive: true });
  const cut = bytes.length - Math.min(HELD_OUT_BYTES, Math.ceil(bytes.length * HELD_OUT_SHARE));
  await writeFile(join(folder, heldOutOf(name)), bytes.subarray(cut));
  // The list has a text when it is whole.
  const unfinished = join(folder, `.${textFile(name)}`);
  await writeFile(unfinished, bytes.subarray(0, cut));
  await rename(unfinished, join(folder, textFile(name)));
  return success({ name, bytes: cut });
}

export async function listedTexts(data: Pick<DataDirectory, 'directory'>): Promise<ListedText[]> {
  const folder = folderOf(data);
  const files = await readdir(folder).catch(() => []); // none was brought yet
  const names = files.flatMap((file) => {
    const name = file.slice(0, -textFile('').length);
    return textFile(name) === file && TEXT_NAME.test(name) ? name : [];
  });
  return Promise.all(
    names.sort().map(async (name) => ({ name, bytes: (await stat(join(folder, textFile(name)))).size })),
  );
}
