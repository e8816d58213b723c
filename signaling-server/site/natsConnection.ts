/** The connection of one process to the site's NATS, which lasts: it is made again however often it breaks. */
import { readFileSync } from 'node:fs';
import { JetStreamApiError, jetstreamManager } from '@nats-io/jetstream';
import {
  AuthorizationError,
  connect,
  credsAuthenticator,
  type NatsConnection,
  type NodeConnectionOptions,
} from '@nats-io/transport-node';
import { given, type Result, refusal, success } from '../../swarm/base.ts';
import { onOneLine } from '../files/errorWords.ts';
import { NotKept } from '../files/storageProblem.ts';
import { isNotReady, type Patience } from './patience.ts';

/** Who says nothing to so many of these is not there. */
const PING_MS = 2_000;
const PINGS_UNANSWERED = 2;
const RECONNECT_MS = 500;
const CONNECT_LIMIT_MS = 5_000;

interface NatsAddress {
  readonly urls: readonly string[];
  /** Of a user's credentials. */
  readonly creds?: string;
}

/** Refuses with one sentence, without the password of an address. */
export async function connectNats({ urls, creds }: NatsAddress, patience: Patience): Promise<Result<NatsConnection>> {
  const shown = urls.map(withoutPassword).join(', ');
  const authenticator = creds === undefined ? undefined : credentialsIn(creds);
  if (authenticator?.ok === false) return authenticator;
  const options: NodeConnectionOptions = {
    ...credentialsOf(urls),
    servers: urls.map(serverOf),
    ...(urls.some((url) => url.startsWith('tls:')) ? { tls: {} } : {}),
    ...given({ authenticator: authenticator?.value }),
    ...{ timeout: CONNECT_LIMIT_MS, maxReconnectAttempts: -1, reconnectTimeWait: RECONNECT_MS },
    ...{ pingInterval: PING_MS, maxPingOut: PINGS_UNANSWERED, ignoreAuthErrorAbort: true, name: 'shoal' },
  };
  let nats: NatsConnection;
  try {
    nats = await patience.has(() => connect(options));
  } catch (error) {
    if (error instanceof AuthorizationError) return refusal(`NATS at ${shown} refuses ${refused(urls, creds)}`);
    return refusal(`NATS at ${shown} cannot be reached: ${plain(error)}`);
  }
  try {
    await patience.has(() => jetstreamManager(nats));
    return success(nats);
  } catch (error) {
    await nats.close();
    if (isNotReady(error)) return refusal(`NATS at ${shown} is not ready: ${plain(error)}`);
    return refusal(`NATS at ${shown} has no JetStream: start it with it (nats-server -js)`);
  }
}

/** Throws what a write failed with: as not kept, with its own words, where NATS answered that it does not take it. */
export function notTaken(error: unknown): never {
  if (error instanceof JetStreamApiError)
    throw new NotKept(`NATS keeps nothing more: ${plain(error)}`, { cause: error });
  throw error;
}

function credentialsIn(path: string): Result<ReturnType<typeof credsAuthenticator>> {
  try {
    const authenticator = credsAuthenticator(readFileSync(path));
    authenticator(''); // only then is it looked at
    return success(authenticator);
  } catch (error) {
    const { code } = error as { code?: unknown };
    const what = code === undefined ? NO_CREDENTIALS : (UNREADABLE.get(code) ?? `it cannot be read (${code})`);
    return refusal(`--nats-creds ${path}: ${what}`);
  }
}

const NO_CREDENTIALS =
  'there are no credentials of a NATS user in it: expected a .creds file, as nsc and nats write them';
const UNREADABLE = new Map<unknown, string>([
  ['ENOENT', 'there is no such file'],
  ['EACCES', 'it may not be read by this user'],
  ['EISDIR', 'it is a folder'],
]);

/** What it was shown. */
function refused(urls: readonly string[], creds: string | undefined): string {
  if (creds !== undefined) return `the credentials of ${creds}`;
  if (credentialsOf(urls).user !== undefined) return 'the user and password of its address';
  return 'a connection without a user: give nats://USER:PASSWORD@HOST:PORT, or --nats-creds FILE';
}

function parsed(url: string): URL | null {
  const text = url.includes('://') ? url : `nats://${url}`;
  return URL.canParse(text) ? new URL(text) : null;
}

const serverOf = (url: string): string => parsed(url)?.host ?? url;

export const withoutPassword = (url: string): string => {
  const { protocol, host } = parsed(url) ?? { protocol: 'nats:', host: '?' };
  return `${protocol}//${host}`;
};

/** Of the first address that has any. */
function credentialsOf(urls: readonly string[]): { readonly user?: string; readonly pass?: string } {
  const found = urls.map(parsed).find((url) => url !== null && url.username !== '');
  if (!found) return {};
  return { user: decodeURIComponent(found.username), pass: decodeURIComponent(found.password) };
}

const plain = (error: unknown): string => onOneLine(error).toLowerCase();
