/**
 * A checkpoint as a download: the export's folder, packed as it is sent. Each has the whole model on the disk until it is
 * read, so that few are under way at once, and what nobody reads any more is gone.
 */
import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { problem } from '../http/calls.ts';
import { limitReading } from '../http/slowRequests.ts';
import { type DataDirectory, DOWNLOADS_FOLDER } from '../store/dataDirectory.ts';
import { type ExportWish, exportedCheckpoint, exportRun } from '../store/exportRun.ts';
import { tarHeader, tarPadding } from '../texts/tar.ts';

const MOST_AT_ONCE = 4;

const underWay = new WeakMap<DataDirectory, number>();

/** Why it cannot be sent at this moment; null: it can. */
export function exportProblem(
  data: DataDirectory,
  run: string,
  step: number | undefined,
  generation: number | undefined,
): { readonly status: 409 | 503; readonly sentence: string } | null {
  const others = underWay.get(data) ?? 0;
  if (others >= MOST_AT_ONCE)
    return { status: 503, sentence: `${others} downloads are under way: try again in a while` };
  const found = exportedCheckpoint(data, run, step, generation);
  return found.ok ? null : { status: 409, sentence: found.reason };
}

export async function sendExport(
  reply: FastifyReply,
  data: DataDirectory,
  run: string,
  wish: ExportWish = {},
): Promise<FastifyReply> {
  const { step, generation } = wish;
  const refused = exportProblem(data, run, step, generation);
  if (refused !== null) return problem(reply, refused.status, refused.sentence);
  underWay.set(data, (underWay.get(data) ?? 0) + 1);
  const folder = join(data.directory, DOWNLOADS_FOLDER, randomUUID());
  const files = Readable.from(packed(folder, run));
  // Also where nothing of it was ever read: its browser may have gone meanwhile.
  files.once('close', () => {
    underWay.set(data, (underWay.get(data) ?? 1) - 1);
    void rm(folder, { recursive: true, force: true });
  });
  const written = await exportRun(data, run, folder, wish).catch((error: unknown) => {
    files.destroy();
    throw error;
  });
  if (!written.ok || reply.raw.destroyed) {
    files.destroy();
    return written.ok ? reply : problem(reply, 409, written.reason);
  }
  limitReading(reply.raw);
  return reply
    .type('application/x-tar')
    .header('content-disposition', `attachment; filename="${run}${step === undefined ? '' : `-${step}`}.tar"`)
    .send(files);
}

/** File by file. */
async function* packed(folder: string, name: string): AsyncGenerator<Buffer> {
  for (const file of await readdir(folder)) {
    const path = join(folder, file);
    const { size } = await stat(path);
    yield tarHeader(`${name}/${file}`, size);
    for await (const chunk of createReadStream(path)) yield chunk;
    yield tarPadding(size);
  }
  yield Buffer.alloc(1024);
}
