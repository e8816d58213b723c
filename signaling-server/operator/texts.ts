/**
 * Texts that operators brought along, to train runs on: blobs that the store names, each with its end cut off to be held
 * out. Texts are read as bytes; what is no UTF-8 is a picture or a program chosen by mistake, or needs another tool first.
 * Examples are looked at line by line.
 */
import { isUtf8 } from 'node:buffer';
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { draftExamplesQuestionSchema } from '../../swarm/run/draftExamples.ts';
import { type ListedText, TEXT_NAME } from '../../swarm/run/runDraft.ts';
import { perMinute, problem } from '../http/calls.ts';
import { wallMs } from '../monitoring/clock.ts';
import { addOperatorEvent } from '../run/history.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import type { Store } from '../store/store.ts';
import { broughtExamples, hasExamples } from '../texts/broughtExamples.ts';
import { deed, deedText } from './deed.ts';
import { draftExamples } from './draftExamples.ts';
import type { OperatorContext } from './operatorContext.ts';

const TEXT_BYTES_LIMIT = 64 * 1024 * 1024;
/** Less is no text to train on. */
const LEAST_BYTES = 2_000;
const MOST_TEXTS = 100;
const UPLOADS_PER_MINUTE = 20;
const LOOKS_PER_MINUTE = 60;
/** Small: a held-out loss should cost few steps' time. */
const HELD_OUT_SHARE = 0.02;
const HELD_OUT_BYTES = 8_000;

/** `examples`: it is meant to have them, whatever its first line is. */
const textQuery = z.object({ name: z.string().regex(TEXT_NAME), examples: z.literal('1').optional() });

/** Registered behind the session and the origin check. */
export function addTexts(api: FastifyInstance, context: OperatorContext): void {
  addUpload(api, context);
  addExamples(api, context);
}

function addUpload(api: FastifyInstance, { run, data, session }: OperatorContext): void {
  api.addContentTypeParser('application/octet-stream', { parseAs: 'buffer' }, (_request, body, done) =>
    done(null, body),
  );
  const textLimits = { ...perMinute(UPLOADS_PER_MINUTE), bodyLimit: TEXT_BYTES_LIMIT };
  api.post('/api/operator/texts', textLimits, async (request, reply) => {
    const query = textQuery.safeParse(request.query);
    if (!query.success || !Buffer.isBuffer(request.body))
      return problem(reply, 400, 'expected a text, named by letters, digits, "_" and "-"');
    const { name, examples } = query.data;
    const saved = await saveText(data, name, request.body, examples !== undefined);
    const by = session.nameOf(request.headers.cookie);
    const said = deedText(deed('bring', 'brought', `text ${name} along`), saved.ok ? null : saved.reason);
    addOperatorEvent(data.store, run.name, said, by, run.committedSteps, wallMs());
    return saved.ok ? { ok: true, value: saved.value } : problem(reply, 409, saved.reason);
  });
}

/** Reads all of a draft's examples: one draft's after the other. */
function addExamples(api: FastifyInstance, { data, models }: OperatorContext): void {
  let isReading = false;
  api.post('/api/operator/examples', perMinute(LOOKS_PER_MINUTE), async (request, reply) => {
    const question = draftExamplesQuestionSchema.safeParse(request.body);
    if (!question.success) return problem(reply, 400, 'expected a text with examples, and how the draft reads it');
    if (isReading)
      return problem(reply.header('retry-after', '1'), 503, 'another draft’s examples are being read: try again soon');
    isReading = true;
    const left = new AbortController();
    reply.raw.once('close', () => left.abort());
    try {
      const seen = await draftExamples(data, models, question.data, new Date(wallMs()), left.signal);
      return seen.ok ? seen.value : problem(reply, 409, seen.reason);
    } finally {
      isReading = false;
    }
  });
}

async function saveText(
  { store, blobs }: DataDirectory,
  name: string,
  bytes: Buffer,
  isOfExamples: boolean,
): Promise<Result<ListedText>> {
  if (!isUtf8(bytes) || bytes.includes(0)) return refusal('this file is not text: expected one in UTF-8');
  const refused = noRoomFor(store, name);
  if (refused !== null) return refusal(refused);
  const heldOutBytes = Math.min(HELD_OUT_BYTES, Math.ceil(bytes.length * HELD_OUT_SHARE));
  const isText = !isOfExamples && !hasExamples(bytes);
  const cut = isText ? cutText(bytes, heldOutBytes) : await broughtExamples(bytes, heldOutBytes);
  if (!cut.ok) return cut;
  const { format, kept, heldOut } = cut.value;
  const hash = await blobs.put(kept);
  const heldOutHash = await blobs.put(heldOut);
  // Two operators may have sent one at once: the second one finds the name taken.
  const refusedNow = noRoomFor(store, name);
  if (refusedNow !== null) return refusal(refusedNow);
  const listed = { name, format, bytes: kept.length };
  store.saveText({ ...listed, hash, heldOutHash });
  return success(listed);
}

function cutText(bytes: Buffer, heldOutBytes: number) {
  if (bytes.length < LEAST_BYTES)
    return refusal(`${bytes.length} bytes are too few to train on: expected ${LEAST_BYTES} or more`);
  const cut = bytes.length - heldOutBytes;
  return success({ format: 'text' as const, kept: bytes.subarray(0, cut), heldOut: bytes.subarray(cut) });
}

/** Null: a text may be kept under this name. */
function noRoomFor(store: Store, name: string): string | null {
  const known = store.texts();
  if (known.some((text) => text.name === name))
    return `there is a text "${name}" already: choose it in the list, or give the file another name`;
  return known.length >= MOST_TEXTS ? `the server keeps at most ${MOST_TEXTS} texts` : null;
}

export const listedTexts = (store: Store): ListedText[] =>
  store.texts().map(({ name, format, bytes }) => ({ name, format, bytes }));
