/** The Hub's own client against a stand-in for its interface. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { HubStandIn } from '../../../signaling-server/testing/hubStandIn.ts';
import { openPullRequest, type PushedFile } from './hub.ts';

const REPOSITORY = 'fisher/whales';
const [WRITES, READS] = ['hf_writes', 'hf_reads'];

let hub: HubStandIn;
beforeAll(async () => {
  hub = await HubStandIn.open({
    repositories: [REPOSITORY],
    tokens: { [WRITES]: 'read-repos write-discussions', [READS]: 'read-repos' },
  });
});
afterAll(() => hub.close());

const bytes = (size: number): Uint8Array<ArrayBuffer> => Uint8Array.from({ length: size }, (_, at) => (at * at) % 251);
const file = (path: string, content: BlobPart): PushedFile => ({ path, content: new Blob([content]) });
/** By base64 in the commit, in one piece beside it, and in four parts. */
const FILES = [
  file('README.md', '# Whales\n\n“Call me Ishmael.”\n'),
  file('adapter_model.safetensors', bytes(1_001)),
  file('model.safetensors', bytes(200_003)),
];

const push = (other: Partial<Parameters<typeof openPullRequest>[0]> = {}) =>
  openPullRequest({
    ...{ hubUrl: hub.url, token: WRITES, repository: REPOSITORY, title: 'whales after 20 steps', files: FILES },
    ...{ signal: new AbortController().signal, progress: () => {} },
    ...other,
  });

test('a pull request has every file as it was, and its address is told', async () => {
  const said: string[] = [];
  expect(await push({ progress: (words) => said.push(words) })).toEqual({
    ...{ ok: true, value: `${hub.url}/${REPOSITORY}/discussions/1` },
  });
  const [request] = hub.pullRequests.get(REPOSITORY) ?? [];
  expect(request?.title).toBe('whales after 20 steps');
  expect([...(request?.files.keys() ?? [])].toSorted()).toEqual(FILES.map(({ path }) => path));
  for (const { path, content } of FILES)
    expect(request?.files.get(path)?.equals(Buffer.from(await content.arrayBuffer())), path).toBe(true);
  expect(said).toContain('model.safetensors: 100 % sent');
  expect(hub.faults).toEqual([]);
});

test('what goes wrong is said in a sentence, and nothing is opened', async () => {
  const before = hub.pullRequests.get(REPOSITORY)?.length;
  const tooLarge = Object.defineProperty(new Blob(['x']), 'size', { value: 3e9 });
  const calls = hub.calls.length;
  expect(await push({ token: 'secret' })).toMatchObject({ reason: expect.stringContaining('begin with hf_') });
  expect(await push({ files: [{ path: 'model.safetensors', content: tooLarge }] })).toMatchObject({
    reason: expect.stringMatching(/^model\.safetensors has 3\.0 GB, and a browser can push files of at most 2\.0 GB/),
  });
  expect(hub.calls).toHaveLength(calls);
  for (const [other, reason] of [
    [{ token: 'hf_unknown' }, /does not know this token: it is wrong, or it has expired/],
    [{ token: READS }, /^This token may not open pull requests in fisher\/whales\.$/],
    [{ repository: 'fisher/squids' }, /^There is no model fisher\/squids at the Hub/],
    [{ hubUrl: 'http://localhost:1' }, /this browser could not reach the Hub or its storage/],
  ] as const)
    expect(await push(other)).toEqual({ ok: false, reason: expect.stringMatching(reason) });
  expect(hub.pullRequests.get(REPOSITORY)?.length).toBe(before);
});
