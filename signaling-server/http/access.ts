/**
 * How donors and the operator get to this server: its certificate, the proxies before it, the address they know it by.
 * Everything a person may give is checked here before the server starts.
 */
import { readFileSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { createSecureContext } from 'node:tls';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { messageOf } from '../files/errorWords.ts';

interface Tls {
  readonly cert: string;
  readonly key: string;
}

export interface Access {
  readonly tls?: Tls;
  /** An origin: scheme, host and port. */
  readonly publicUrl?: string;
  /** Addresses and ranges whose `X-Forwarded-…` headers are believed. */
  readonly trustProxy?: readonly string[];
}

function read(path: string, option: string): Result<string> {
  try {
    const text = readFileSync(path, 'utf8');
    // An empty one would pass for none at all, and no connection would ever come about.
    return text.trim() === '' ? refusal(`${option}: ${path} is empty`) : success(text);
  } catch (error) {
    return refusal(`${option}: ${path} cannot be read: ${messageOf(error)}`);
  }
}

/** A certificate (with its chain) and its key, in PEM, that fit each other. */
const OWN_KEY = /^[\w-]{16,200}$/;

/** The key of the operator's own donors. */
export function readOwnKey(path: string): Result<string> {
  const text = read(path, '--own-key');
  if (!text.ok) return text;
  const key = text.value.trim();
  return OWN_KEY.test(key)
    ? success(key)
    : refusal(`--own-key: ${path} must hold one key of 16 to 200 letters, digits, - or _`);
}

export function readTls(certPath: string | undefined, keyPath: string | undefined): Result<Tls | null> {
  if (certPath === undefined && keyPath === undefined) return success(null);
  if (certPath === undefined) return refusal('--tls-key needs --tls-cert FILE beside it');
  if (keyPath === undefined) return refusal('--tls-cert needs --tls-key FILE beside it');
  const cert = read(certPath, '--tls-cert');
  if (!cert.ok) return cert;
  const key = read(keyPath, '--tls-key');
  if (!key.ok) return key;
  const tryOut = (parts: Partial<Tls>): string | null => {
    try {
      createSecureContext(parts);
      return null;
    } catch (error) {
      return messageOf(error);
    }
  };
  const badCert = tryOut({ cert: cert.value });
  if (badCert !== null) return refusal(`--tls-cert: ${certPath} is not a certificate in PEM form: ${badCert}`);
  const badKey = tryOut({ key: key.value });
  if (badKey !== null)
    return refusal(`--tls-key: ${keyPath} is not a private key in PEM form without a password: ${badKey}`);
  if (tryOut({ cert: cert.value, key: key.value }) !== null) {
    return refusal(`--tls-key: ${keyPath} is not the key of the certificate in ${certPath}`);
  }
  return success({ cert: cert.value, key: key.value });
}

/** As browsers write it: in lower case, without the port that goes without saying; null: it is none, or more than one. */
function plainOrigin(text: string): string | null {
  if (!URL.canParse(text)) return null;
  const { protocol, origin, href } = new URL(text);
  return ['http:', 'https:'].includes(protocol) && href === `${origin}/` ? origin : null;
}

export function parsePublicUrl(text: string): Result<string> {
  const origin = plainOrigin(text);
  return origin === null
    ? refusal(
        `--public-url "${text}" is no address: expected https://HOST or http://HOST, with :PORT at will and no path`,
      )
    : success(origin);
}

/** A host as a Content-Security-Policy may name it (https://www.w3.org/TR/CSP3/#grammardef-host-part), without wildcards. */
const POLICY_HOST = /^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/;

function siteOf(text: string): string | null {
  const origin = plainOrigin(text);
  return origin !== null && POLICY_HOST.test(new URL(origin).hostname) ? origin : null;
}

/** Sites, each by its origin, with commas between them. */
export function parseEmbedOn(text: string): Result<string[]> {
  const parts = text.split(',').map((part) => part.trim());
  const wrong = parts.find((part) => siteOf(part) === null);
  return wrong === undefined
    ? success(parts.flatMap((part) => siteOf(part) ?? []))
    : refusal(
        `--embed-on: "${wrong}" is no site: expected https://HOST or http://HOST, with :PORT at will, no path and no *, with commas between them`,
      );
}

/** Where the dashboard may open pull requests, and as which OAuth application; null: as none, with an access token. */
export interface Hub {
  readonly url: string;
  readonly clientId: string | null;
}

export const HUGGING_FACE: Hub = { url: 'https://huggingface.co', clientId: null };
/** Where it has browsers put large files, by addresses that it signs. */
const HUGGING_FACE_UPLOADS = 'https://hf-hub-lfs-us-east-1.s3-accelerate.amazonaws.com';

/** What the dashboard's page connects to for it. Another one takes large files itself. */
export const hubOrigins = ({ url }: Hub): readonly string[] =>
  url === HUGGING_FACE.url ? [url, HUGGING_FACE_UPLOADS] : [url];

export function parseHubUrl(text: string): Result<string> {
  const origin = siteOf(text);
  return origin === null
    ? refusal(`--hub-url: "${text}" is no site: expected https://HOST or http://HOST, with :PORT at will and no path`)
    : success(origin);
}

/** A comma-separated list of addresses, ranges (10.0.0.0/8) and the names that stand for some. */
export function parseTrustProxy(text: string): Result<string[]> {
  const parts = text.split(',').map((part) => part.trim());
  const wrong = parts.find((part) => !isProxyAddress(part));
  if (wrong === undefined) return success(parts);
  return refusal(
    `--trust-proxy: "${wrong}" is no address: expected IP addresses, ranges as 10.0.0.0/8, loopback, linklocal or uniquelocal, with commas between them`,
  );
}

function isProxyAddress(part: string): boolean {
  if (['loopback', 'linklocal', 'uniquelocal'].includes(part)) return true;
  const [address = '', bits, ...rest] = part.split('/');
  const family = isIP(address);
  if (family === 0 || rest.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32));
}

/** A browser gives WebGPU only to https and to localhost: what to say where the address is neither. */
export function secureContextProblem(url: string): string | null {
  const { protocol, hostname } = new URL(url);
  const isLocal =
    hostname === 'localhost' ||
    hostname.endsWith('.localhost') ||
    hostname === '[::1]' ||
    (isIP(hostname) === 4 && hostname.startsWith('127.'));
  if (protocol === 'https:' || isLocal) return null;
  return (
    `Browsers give WebGPU only to https and to localhost: donors who open ${url} will have none. ` +
    'Give this server a certificate (--tls-cert, --tls-key), put a proxy that has one before it (--public-url), or let donors reach it as localhost.'
  );
}

export const UNKNOWN_HOST =
  'this server is not known by that name: open it by one that it was started with, see --host and --public-url';

/** Lower-case names by which a browser may ask for this server, beside localhost and every address. */
export function knownNames(host: string, { publicUrl }: Access): ReadonlySet<string> {
  const own = hostname();
  return new Set(
    [host, own, `${own}.local`, ...(publicUrl === undefined ? [] : [new URL(publicUrl).hostname])].map((name) =>
      name.toLowerCase(),
    ),
  );
}

/**
 * A site that has its own name point to this server's address would be of the same origin with it (DNS rebinding). It
 * needs a name for that: whoever asks by an address means this machine.
 */
export function isKnownHost(header: string | undefined, names: ReadonlySet<string>): boolean {
  if (header === undefined) return true; // no browser
  if (!URL.canParse(`http://${header}`)) return false;
  const name = new URL(`http://${header}`).hostname.replace(/\.$/, '');
  const isAddress = isIP(name.replace(/^\[|\]$/g, '')) !== 0;
  return isAddress || name === 'localhost' || name.endsWith('.localhost') || names.has(name);
}

/** By a proxy that says so; whether it is to be believed is another matter. */
export const isForwarded = (headers: IncomingHttpHeaders): boolean =>
  ['x-forwarded-for', 'forwarded', 'via'].some((name) => headers[name] !== undefined);

/** A page of another site cannot act here: its requests name it as their origin. */
export function isSameOrigin(headers: IncomingHttpHeaders, { publicUrl }: Access): boolean {
  const { origin, host } = headers;
  if (origin === undefined) return headers['sec-fetch-site'] === undefined;
  if (origin === publicUrl) return true;
  return URL.canParse(origin) && new URL(origin).host === host;
}
