/**
 * Texts that operators brought along, to train runs on: blobs that the store names, each with its end cut off to be held
 * out. They are read as bytes; what is no UTF-8 is a picture or a program chosen by mistake, or needs another tool first.
 */
import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import { copyFile, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { heldOutOf, type ListedText, TEXT_NAME, textFile } from '../../swarm/run/runDraft.ts';
import { perMinute, problem } from '../http/calls.ts';
import { wallMs } from '../monitoring/clock.ts';
import { addOperatorEvent } from '../run/history.ts';
import { type DataDirectory, DOWNLOADS_FOLDER } from '../store/dataDirectory.ts';
import type { Store } from '../store/store.ts';
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
    addOperatorEvent(data.store, run.name, said, by, run.committedSteps, wallMs());
    return saved.ok ? { ok: true, value: saved.value } : problem(reply, 409, saved.reason);
  });
}

async function saveText({ store, blobs }: DataDirectory, name: string, bytes: Buffer): Promise<Result<ListedText>> {
  if (bytes.length < LEAST_BYTES)
    return refusal(`${bytes.length} bytes are too few to train on: expected ${LEAST_BYTES} or more`);
  if (!isUtf8(bytes) || bytes.includes(0)) return refusal('this file is not text: expected one in UTF-8');
  const refused = noRoomFor(store, name);
  if (refused !== null) return refusal(refused);
  const cut = bytes.length - Math.min(HELD_OUT_BYTES, Math.ceil(bytes.length * HELD_OUT_SHARE));
  const hash = await blobs.put(bytes.subarray(0, cut));
  const heldOutHash = await blobs.put(bytes.subarray(cut));
  // Two operators may have sent one at once: the second one finds the name taken.
  const refusedNow = noRoomFor(store, name);
  if (refusedNow !== null) return refusal(refusedNow);
  store.saveText({ name, bytes: cut, hash, heldOutHash });
  return success({ name, bytes: cut });
}

/** Null: a text may be kept under this name. */
function noRoomFor(store: Store, name: string): string | null {
  const known = store.texts();
  if (known.some((text) => text.name === name))
    return `there is a text "${name}" already: choose it in the list, or give the file another name`;
  return known.length >= MOST_TEXTS ? `the server keeps at most ${MOST_TEXTS} texts` : null;
}

export const listedTexts = (store: Store): ListedText[] => store.texts().map(({ name, bytes }) => ({ name, bytes }));

/**
 * A text's files under the names that a draft's run file has them by, while `work` reads them: it is told where that run
 * file would be.
 */
export async function withTextFiles<T>(
  { directory, store, blobs }: DataDirectory,
  name: string,
  work: (draftPath: string) => Promise<Result<T>>,
): Promise<Result<T>> {
  const text = store.texts().find((known) => known.name === name);
  if (text === undefined) return refusal(`there is no text "${name}" here: choose one of the list`);
  const folder = join(directory, DOWNLOADS_FOLDER, randomUUID());
  await mkdir(folder, { recursive: true });
  try {
    for (const [hash, file] of [
      [text.hash, textFile(name)],
      [text.heldOutHash, heldOutOf(name)],
    ] as const) {
      const damage = await blobs.problem(hash);
      if (damage !== null) return refusal(damage);
      await copyFile(blobs.path(hash), join(folder, file));
    }
    return await work(join(folder, 'draft'));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
