/** A checkpoint as a download: the export's folder, packed as it is sent. */
import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import type { DataDirectory } from './dataDirectory.ts';
import { exportRun } from './exportRun.ts';
import { problem } from './operatorDesk.ts';
import { tarHeader, tarPadding } from './tar.ts';

export async function sendExport(
  reply: FastifyReply,
  data: DataDirectory,
  run: string,
  step: number | undefined,
): Promise<FastifyReply> {
  const folder = join(data.directory, `.download-${randomUUID()}`);
  const written = await exportRun(data, run, folder, step);
  if (!written.ok) return problem(reply, 409, written.reason);
  return reply
    .type('application/x-tar')
    .header('content-disposition', `attachment; filename="${run}${step === undefined ? '' : `-${step}`}.tar"`)
    .send(Readable.from(packed(folder, run)));
}

/** File by file; the folder goes when all is read, or nobody reads any more. */
async function* packed(folder: string, name: string): AsyncGenerator<Buffer> {
  try {
    for (const file of await readdir(folder)) {
      const path = join(folder, file);
      const { size } = await stat(path);
      yield tarHeader(`${name}/${file}`, size);
      for await (const chunk of createReadStream(path)) yield chunk;
      yield tarPadding(size);
    }
    yield Buffer.alloc(1024);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
