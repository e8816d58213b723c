/**
 * Stands in for the Hub in tests: what its documentation says of signing in (OAuth with PKCE), of the two ways in which
 * files are uploaded, and of commits that open pull requests. It looks at all that it is sent: what a Hub would refuse it
 * refuses, and what it could not notice but must not be is in `faults`.
 *
 * https://huggingface.co/docs/hub/oauth, https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md
 */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

interface PullRequest {
  readonly title: string;
  /** What its token could do. */
  readonly scope: string;
  readonly files: ReadonlyMap<string, Buffer>;
}

interface Options {
  /** Of models, that there are. */
  readonly repositories: readonly string[];
  /** Access tokens that somebody made, with what each may do. */
  readonly tokens?: Readonly<Record<string, string>>;
}

/** That people may sign in to, and where it may have them sent back to. */
interface Application {
  readonly clientId: string;
  readonly redirectUrl: string;
}

interface Answer {
  readonly status?: number;
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

interface Call {
  readonly method: string;
  readonly url: URL;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

const json = (value: unknown, status = 200): Answer => ({
  ...{ status, type: 'application/json', body: JSON.stringify(value) },
});
const refused = (status: number, error: string): Answer => json({ error }, status);
const sha256 = (bytes: Buffer | string): Buffer => createHash('sha256').update(bytes).digest();

/** Any page may call it, and read the two headers that its clients need. */
const OPEN = {
  'access-control-allow-origin': '*',
  'access-control-allow-methods': 'GET, POST, PUT',
  'access-control-allow-headers': 'authorization, content-type, x-request-id',
  'access-control-expose-headers': 'etag, x-request-id',
};
const WEIGHTS = /\.(safetensors|bin)$/;
/** Larger ones are uploaded in parts of this size. */
const PART_BYTES = 64 * 1024;

export class HubStandIn {
  readonly url: string;
  readonly pullRequests = new Map<string, PullRequest[]>();
  readonly faults: string[] = [];
  /** `POST /api/…`, in order. */
  readonly calls: string[] = [];
  readonly #server: Server;
  readonly #repositories: readonly string[];
  /** What each may do. */
  readonly tokens: Map<string, string>;
  application: Application | null = null;
  readonly #codes = new Map<string, { readonly challenge: string; readonly scope: string }>();
  readonly #stored = new Map<string, Buffer>();
  readonly #parts = new Map<string, Buffer>();

  static async open(options: Options): Promise<HubStandIn> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve));
    return new HubStandIn(server, options);
  }

  private constructor(server: Server, options: Options) {
    this.#server = server;
    this.#repositories = options.repositories;
    this.tokens = new Map(Object.entries(options.tokens ?? {}));
    this.url = `http://localhost:${(server.address() as AddressInfo).port}`;
    server.on('request', async (message, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of message) chunks.push(chunk);
      const { method = '', headers, url = '' } = message;
      const call = { method, headers, url: new URL(url, this.url), body: Buffer.concat(chunks) };
      const { status = 200, type = 'text/plain', headers: own, body } = this.#answer(call);
      response.writeHead(status, { ...OPEN, 'content-type': type, ...own }).end(body);
    });
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(call: Call): Answer {
    const { method, url } = call;
    if (method === 'OPTIONS' || url.pathname === '/favicon.ico') return { status: 204 };
    this.calls.push(`${method} ${url.pathname}`);
    if (url.pathname.startsWith('/stored/')) return this.#store(call);
    switch (`${method} ${url.pathname}`) {
      case 'GET /.well-known/openid-configuration':
        return json({
          authorization_endpoint: `${this.url}/oauth/authorize`,
          token_endpoint: `${this.url}/oauth/token`,
          userinfo_endpoint: `${this.url}/oauth/userinfo`,
        });
      case 'GET /oauth/authorize':
        return this.#authorize(url.searchParams);
      case 'POST /oauth/token':
        return this.#token(call);
      case 'GET /oauth/userinfo':
        return this.#scopeOf(call) === null
          ? refused(401, 'Invalid credentials')
          : json({ sub: '1', name: 'A Fisher', preferred_username: 'fisher' });
      default:
        return this.#repository(call);
    }
  }

  /** A page on which a person agrees, and is sent back with a code. */
  #authorize(asked: URLSearchParams): Answer {
    const [redirect, state] = [asked.get('redirect_uri') ?? '', asked.get('state') ?? ''];
    if (asked.get('client_id') !== this.application?.clientId || redirect !== this.application.redirectUrl)
      return refused(400, 'unknown application');
    const challenge = asked.get('code_challenge') ?? '';
    if (asked.get('response_type') !== 'code' || asked.get('code_challenge_method') !== 'S256' || challenge.length < 43)
      return refused(400, 'a code with a challenge was expected');
    const code = randomUUID();
    this.#codes.set(code, { challenge, scope: asked.get('scope') ?? '' });
    const back = `${redirect}?${new URLSearchParams({ code, state })}`.replaceAll('&', '&amp;');
    return {
      type: 'text/html',
      body: `<!doctype html><title>Hub</title><a href="${back}">Authorize</a>`,
    };
  }

  #token({ body, headers }: Call): Answer {
    if (!headers['content-type']?.startsWith('application/x-www-form-urlencoded')) return refused(400, 'a form');
    const form = new URLSearchParams(String(body));
    const code = form.get('code') ?? '';
    const given = this.#codes.get(code);
    this.#codes.delete(code); // It is good for once.
    const isProven = sha256(form.get('code_verifier') ?? '').toString('base64url') === given?.challenge;
    if (form.get('grant_type') !== 'authorization_code' || given === undefined || !isProven)
      return json({ error: 'invalid_grant', error_description: 'The code or its verifier is wrong' }, 400);
    const token = `hf_oauth_${randomBytes(16).toString('hex')}`;
    this.tokens.set(token, given.scope);
    return json({ access_token: token, token_type: 'bearer', expires_in: 3600, scope: given.scope, id_token: '' });
  }

  #scopeOf({ headers }: Call): string | null {
    return this.tokens.get(headers.authorization?.replace(/^Bearer /, '') ?? '') ?? null;
  }

  /** What is asked of a model's repository: how its files are to come, where large ones go, and a commit. */
  #repository(call: Call): Answer {
    const { method, url } = call;
    const [, ofApi, ofLfs] =
      /^\/api\/models\/([^/]+\/[^/]+)\/(?:preupload|commit)\/main$|^\/([^/]+\/[^/]+)\.git\/info\/lfs\/objects\/batch$/.exec(
        url.pathname,
      ) ?? [];
    const name = ofApi ?? ofLfs;
    if (method !== 'POST' || name === undefined) return refused(404, 'Not found');
    const scope = this.#scopeOf(call);
    if (scope === null) return refused(401, 'Invalid username or password.');
    if (!this.#repositories.includes(name)) return refused(404, 'Repository not found');
    if (!scope.split(' ').includes('write-discussions')) return refused(403, 'Forbidden: write-discussions is needed');
    if (ofLfs !== undefined) return this.#batch(call);
    // Without it the commit would be the main branch's.
    if (url.searchParams.get('create_pr') !== '1') return refused(403, 'Forbidden: no right to write');
    return url.pathname.endsWith('/commit/main') ? this.#commit(call, name) : preupload(call);
  }

  #batch({ body }: Call): Answer {
    const { operation, transfers, hash_algo, objects } = JSON.parse(String(body));
    if (operation !== 'upload' || !transfers.includes('basic') || hash_algo !== 'sha_256')
      this.faults.push(`a batch for ${operation} by ${transfers} of ${hash_algo}`);
    return json({
      transfer: 'basic',
      objects: objects.map(({ oid, size }: { oid: string; size: number }) => {
        const place = `${this.url}/stored/${oid}`;
        const parts = Array.from({ length: Math.ceil(size / PART_BYTES) }, (_, index) => index + 1);
        const header = {
          chunk_size: String(PART_BYTES),
          ...Object.fromEntries(parts.map((part) => [String(part).padStart(5, '0'), `${place}?part=${part}`])),
        };
        return { oid, size, actions: { upload: size > PART_BYTES ? { href: place, header } : { href: place } } };
      }),
    });
  }

  /** By an address that is signed: whoever has it needs no token, and should not send one there. */
  #store({ method, url, headers, body }: Call): Answer {
    const oid = url.pathname.slice('/stored/'.length);
    if (headers.authorization !== undefined) this.faults.push('a token was sent to the storage');
    const part = url.searchParams.get('part');
    if (method === 'PUT' && part !== null) {
      this.#parts.set(`${oid} ${part}`, body);
      return { headers: { etag: `"${sha256(body).toString('hex')}"` } };
    }
    const whole = method === 'PUT' ? body : this.#joined(oid, body);
    if (whole === null || sha256(whole).toString('hex') !== oid) return refused(400, 'these bytes have another hash');
    this.#stored.set(oid, whole);
    return {};
  }

  /** The parts that a client says it has sent. */
  #joined(oid: string, body: Buffer): Buffer | null {
    const { parts }: { parts: { partNumber: number; etag: string }[] } = JSON.parse(String(body));
    const bytes = parts.map(({ partNumber, etag }) => {
      const part = this.#parts.get(`${oid} ${partNumber}`);
      return part && etag === `"${sha256(part).toString('hex')}"` ? part : null;
    });
    return bytes.includes(null) ? null : Buffer.concat(bytes.filter((part) => part !== null));
  }

  /** Lines of JSON: a head, then a file each. */
  #commit(call: Call, name: string): Answer {
    if (call.headers['content-type'] !== 'application/x-ndjson')
      return refused(400, 'application/x-ndjson was expected');
    const [head, ...lines] = String(call.body)
      .split('\n')
      .map((line) => JSON.parse(line));
    if (head?.key !== 'header' || typeof head.value.summary !== 'string') return refused(400, 'a header was expected');
    const files = new Map<string, Buffer>();
    for (const { key, value } of lines) {
      const stored = key === 'lfsFile' && value.algo === 'sha256' ? this.#stored.get(value.oid) : undefined;
      const bytes = key === 'file' && value.encoding === 'base64' ? Buffer.from(value.content, 'base64') : stored;
      if (bytes === undefined || WEIGHTS.test(value.path) !== (key === 'lfsFile'))
        return refused(400, `${value.path} came in a way in which it cannot`);
      if (stored && stored.length !== value.size) return refused(400, `${value.path} has another size`);
      files.set(value.path, bytes);
    }
    const others = this.pullRequests.get(name) ?? [];
    this.pullRequests.set(name, [...others, { title: head.value.summary, scope: this.#scopeOf(call) ?? '', files }]);
    const oid = sha256(call.body).toString('hex').slice(0, 40);
    const pullRequestUrl = `${this.url}/${name}/discussions/${others.length + 1}`;
    return json({
      success: true,
      commitOid: oid,
      commitUrl: `${this.url}/${name}/commit/${oid}`,
      hookOutput: '',
      pullRequestUrl,
    });
  }
}

/** Which files are to be uploaded apart, by their names; each comes with its first bytes. */
function preupload({ body }: Call): Answer {
  const { files }: { files: { path: string; size: number; sample: string }[] } = JSON.parse(String(body));
  if (files.some(({ size, sample }) => Buffer.from(sample, 'base64').length !== Math.min(size, 512)))
    return refused(400, 'the first 512 bytes of each file were expected');
  return json({
    files: files.map(({ path }) => ({ path, uploadMode: WEIGHTS.test(path) ? 'lfs' : 'regular', shouldIgnore: false })),
  });
}
