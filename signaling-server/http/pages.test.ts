import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import fastify from 'fastify';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { previewTags } from '../api/preview.ts';
import { application } from './application.ts';
import { addPages } from './pages.ts';

const PAGE = `<title>page</title>${'fish '.repeat(400)}`;
let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-pages-'));
  mkdirSync(join(folder, 'assets'));
  for (const name of [
    'index.html',
    'operator.html',
    'status.html',
    'talk.html',
    'embed.html',
    join('assets', 'donor-1a2b.js'),
  ]) {
    writeFileSync(join(folder, name), PAGE);
    writeFileSync(join(folder, `${name}.gz`), gzipSync(PAGE));
  }
  writeFileSync(join(folder, 'assets', 'small.svg'), '<svg/>');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it('hands out what the build compressed to who takes it, and says how long it may be kept', async () => {
  const app = fastify();
  await addPages(app, folder);
  const get = (url: string, encoding?: string) =>
    app.inject({ url, headers: encoding === undefined ? {} : { 'accept-encoding': encoding } });
  for (const url of ['/', '/operator', '/status', '/talk', '/assets/donor-1a2b.js']) {
    const packed = await get(url, 'gzip, deflate, br');
    expect([packed.statusCode, packed.headers['content-encoding']]).toEqual([200, 'gzip']);
    expect(String(gunzipSync(packed.rawPayload))).toBe(PAGE);
    const type = url.startsWith('/assets') ? /javascript/ : /^text\/html/;
    expect(packed.headers['content-type']).toMatch(type);
    expect(packed.headers.vary).toBe('accept-encoding');
    const plain = await get(url);
    expect([plain.headers['content-encoding'], plain.payload]).toEqual([undefined, PAGE]);
    const kept = url.startsWith('/assets') ? 'public, max-age=31536000, immutable' : 'no-cache';
    expect(packed.headers['cache-control']).toBe(kept);
    expect(plain.headers['cache-control']).toBe(kept);
  }
  const small = await get('/assets/small.svg', 'gzip');
  expect([small.statusCode, small.headers['content-encoding'], small.payload]).toEqual([200, undefined, '<svg/>']);
  // What a page is allowed to do stands with it either way.
  expect((await get('/', 'gzip')).headers['content-security-policy']).toContain('trusted-types shoal-worker');
  await app.close();
});

it('says in words that there is nothing at an address, to a browser as a page with a way back', async () => {
  const app = fastify();
  await addPages(app, folder);
  const seen = await app.inject({ url: '/nowhere', headers: { accept: 'text/html' } });
  expect([seen.statusCode, seen.headers['content-type']]).toEqual([404, expect.stringMatching(/^text\/html/)]);
  expect(seen.payload).toContain('There is nothing at this address.');
  expect(seen.payload).toContain('<a href="/">');
  expect((await app.inject({ url: '/api/nowhere' })).json()).toEqual({ error: 'there is nothing at this address' });
  await app.close();
});

it('what cannot be read is refused in the one form of every answer', async () => {
  const app = application({}, '127.0.0.1');
  await addPages(app, folder);
  app.post('/api/one', async () => 'taken');
  app.get('/api/two', async () => {
    throw new Error('of no concern to anybody');
  });
  const headers = { 'content-type': 'application/json', host: '127.0.0.1' };
  for (const body of ['{', '', '{"__proto__":1}']) {
    const answer = await app.inject({ method: 'POST', url: '/api/one', headers, body });
    expect([answer.statusCode, Object.keys(answer.json()), typeof answer.json().error]).toEqual([
      400,
      ['error'],
      'string',
    ]);
  }
  const bad = await app.inject({ url: '/api/one%00%', headers: { host: '127.0.0.1' } });
  expect([bad.statusCode, Object.keys(bad.json())]).toEqual([400, ['error']]);
  const broken = await app.inject({ url: '/api/two', headers: { host: '127.0.0.1' } });
  expect([broken.statusCode, broken.json()]).toEqual([500, { error: 'the server failed over this call' }]);
  await app.close();
});

it('the dashboard alone may connect to the Hub: Hugging Face’s and where it takes large files, or another one', async () => {
  for (const [hub, hosts] of [
    [undefined, "'self' https://huggingface.co https://hf-hub-lfs-us-east-1.s3-accelerate.amazonaws.com"],
    [{ url: 'https://hub.example', clientId: null }, "'self' https://hub.example"],
  ] as const) {
    const app = fastify();
    await addPages(app, folder, hub && { hub });
    for (const url of ['/', '/operator', '/status', '/talk', '/embed', '/assets/donor-1a2b.js']) {
      const { headers } = await app.inject({ url });
      expect(headers['content-security-policy'], url).toContain(
        `connect-src ${url === '/operator' ? hosts : "'self'"};`,
      );
    }
    await app.close();
  }
});

it('/embed is framed by the sites that are named, and by no other; everything else by none', async () => {
  const policyOf = async (embedOn: readonly string[], url: string) => {
    const app = fastify();
    await addPages(app, folder, { embedOn });
    const { headers } = await app.inject({ url });
    await app.close();
    return { policy: String(headers['content-security-policy']), frames: headers['x-frame-options'] };
  };
  expect((await policyOf([], '/embed')).policy).toContain("frame-ancestors 'none'");
  const named = await policyOf(['https://blog.example', 'https://school.example:8443'], '/embed');
  expect(named.policy).toContain('frame-ancestors https://blog.example https://school.example:8443;');
  expect(named.frames).toBe(undefined);
  expect((await policyOf(['https://$&'], '/embed')).policy).toContain('frame-ancestors https://$&;');
  expect((await policyOf(['https://blog.example'], '/')).policy).toContain("frame-ancestors 'none'");
});

it('the donor’s page says in its head what a link to it is about, as text', async () => {
  const app = fastify();
  await addPages(app, folder, {
    preview: () => previewTags({ status: null, purpose: 'For "fun" & <b>more</b>' }, 'https://shoal.example'),
  });
  const { payload, headers } = await app.inject({ url: '/' });
  expect(headers['content-security-policy']).toContain('trusted-types shoal-worker');
  expect(payload).toContain('<title>page</title>');
  expect(payload).toContain('<meta property="og:image" content="https://shoal.example/preview.png">');
  expect(payload).toContain('content="For &quot;fun&quot; &amp; &lt;b&gt;more&lt;/b&gt;"');
  await app.close();
});
