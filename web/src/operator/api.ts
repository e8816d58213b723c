/** The dashboard's calls to its server: what comes back is checked, and a refusal is the server's own sentence. */
import { z } from 'zod';
import { type Result, refusal, success } from '../../../swarm/base.ts';
import { watchedStepSchema } from '../../../swarm/watch.ts';

const UNREACHABLE = 'The server does not answer.';
const refusalSchema = z.object({ error: z.string() });

export const stepsSchema = z.object({
  steps: z.array(watchedStepSchema),
  evaluations: z.array(z.tuple([z.number(), z.number()])),
});

async function ask<T>(path: string, schema: z.ZodType<T>, init: RequestInit = {}): Promise<Result<T>> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch {
    return refusal(UNREACHABLE);
  }
  const body: unknown = await response.json().catch(() => null);
  if (!response.ok) {
    const said = refusalSchema.safeParse(body);
    return refusal(said.success ? `Refused: ${said.data.error}.` : `Refused by the server (${response.status}).`);
  }
  const parsed = schema.safeParse(body);
  return parsed.success ? success(parsed.data) : refusal('The server’s answer was not understood: reload this page.');
}

export const read = <T>(path: string, schema: z.ZodType<T>): Promise<Result<T>> => ask(path, schema);

const JSON_HEADERS = { 'content-type': 'application/json' };
export const tell = <T>(path: string, body: unknown, schema: z.ZodType<T>): Promise<Result<T>> =>
  ask(path, schema, { method: 'POST', headers: JSON_HEADERS, body: JSON.stringify(body) });

export const upload = (path: string, file: Blob): Promise<Result<unknown>> =>
  ask(path, z.unknown(), { method: 'POST', headers: { 'content-type': 'application/octet-stream' }, body: file });

export const query = (path: string, values: Readonly<Record<string, string | number>>): string =>
  `${path}?${new URLSearchParams(Object.entries(values).map(([name, value]) => [name, String(value)]))}`;
