/** A page's calls to its server: what comes back is checked, and a refusal is the server's own sentence. */
import { z } from 'zod';
import { type Result, refusal, success } from '../../../swarm/base.ts';
import { withRun } from './ofRun.ts';

export const UNREACHABLE = 'The server does not answer.';
const refusalSchema = z.object({ error: z.string() });

/** A site where one process takes over from another says when to come again, and is ready within 10 s. */
const TRIES = 7;

async function answered(path: string, init: RequestInit): Promise<Response> {
  for (let tries = 1; ; tries++) {
    const response = await fetch(withRun(path), init);
    const waitSeconds = Number(response.headers.get('retry-after') ?? Number.NaN);
    if (response.status !== 503 || !(waitSeconds <= 5) || tries === TRIES) return response;
    await new Promise((resolve) => setTimeout(resolve, waitSeconds * 1000));
  }
}

/** What the server answers, as `take` reads it; where it refuses, its sentence. */
async function taken<T>(path: string, init: RequestInit, take: (response: Response) => Promise<T>): Promise<Result<T>> {
  try {
    const response = await answered(path, init);
    if (response.ok) return success(await take(response));
    const said = refusalSchema.safeParse(await response.json().catch(() => null));
    return refusal(said.success ? refusalText(said.data.error) : `Refused by the server (${response.status}).`);
  } catch {
    return refusal(UNREACHABLE);
  }
}

export const askFile = (path: string, init: RequestInit): Promise<Result<Blob>> =>
  taken(path, init, (response) => response.blob());

export async function ask<T>(path: string, schema: z.ZodType<T>, init: RequestInit = {}): Promise<Result<T>> {
  const body = await taken<unknown>(path, init, (response) => response.json().catch(() => null));
  if (init.signal?.aborted) return refusal(UNREACHABLE);
  if (!body.ok) return body;
  const parsed = schema.safeParse(body.value);
  return parsed.success ? success(parsed.data) : refusal('The server’s answer was not understood: reload this page.');
}

/** Who asks every few seconds waits no longer: a server whose network is gone would else be taken for one that answers. */
const LOOK_MS = 12_000;

export const look = <T>(path: string, schema: z.ZodType<T>): Promise<Result<T>> =>
  ask(path, schema, { signal: AbortSignal.timeout(LOOK_MS) });

/** A sentence stands as it is; what is only the end of one says first that it is a refusal. */
const refusalText = (said: string): string => {
  const words = `${said.replace(/\.$/, '')}.`;
  return /^\p{Lu}/u.test(words) ? words : `Refused: ${words}`;
};

/** Of a run by invitation the server answers who is invited. */
export const withInvite = (path: string, invite: string | null): string =>
  invite === null ? path : `${path}?${new URLSearchParams({ invite })}`;

/** A page's address for who is invited: what follows the # is sent to nobody. */
export const invitedLink = (page: string, invite: string | null): string =>
  withRun(invite === null ? page : `${page}#invite=${encodeURIComponent(invite)}`);
