/** The dashboard's calls to its server: what comes back is checked, and a refusal is the server's own sentence. */
import { useCallback, useEffect, useState } from 'preact/hooks';
import { z } from 'zod';
import type { Result } from '../../../swarm/base.ts';
import { watchedStepSchema } from '../../../swarm/messages/watch.ts';
import { ask } from '../page/ask.ts';

export const stepsSchema = z.object({
  steps: z.array(watchedStepSchema),
  evaluations: z.array(z.tuple([z.number(), z.number()])),
});

export const read = <T>(path: string, schema: z.ZodType<T>): Promise<Result<T>> => ask(path, schema);

/** What the server answers to a question, `initial` until then; asked again by the function, and for another `version`. */
export function useAnswer<T>(
  path: string,
  schema: z.ZodType<T>,
  initial: T,
  version: unknown,
): readonly [T, () => void] {
  const [value, show] = useState(initial);
  const refresh = useCallback(() => {
    void read(path, schema).then((answer) => answer.ok && show(answer.value));
  }, [path]);
  useEffect(refresh, [refresh, version]);
  return [value, refresh];
}

const JSON_HEADERS = { 'content-type': 'application/json' };
export const tell = <T>(path: string, body: unknown, schema: z.ZodType<T>, signal?: AbortSignal): Promise<Result<T>> =>
  ask(path, schema, { method: 'POST', headers: JSON_HEADERS, body: JSON.stringify(body), signal: signal ?? null });

export const upload = <T>(path: string, file: Blob, schema: z.ZodType<T>): Promise<Result<T>> =>
  ask(path, schema, { method: 'POST', headers: { 'content-type': 'application/octet-stream' }, body: file });

export const query = (path: string, values: Readonly<Record<string, string | number>>): string =>
  `${path}?${new URLSearchParams(Object.entries(values).map(([name, value]) => [name, String(value)]))}`;
