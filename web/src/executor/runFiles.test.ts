import { expect, test } from 'vitest';
import { Meter } from './meter.ts';
import { meteredFiles, runFiles } from './runFiles.ts';
import { Traffic } from './traffic.ts';

const HASH = 'a'.repeat(64);
const SHARD = { epoch: 1, step: 2, block: 'head', range: [3, 4] } as const;

/** Uploads where the server answers so, one status a try; null: the network fails. */
async function upload(answers: readonly (number | null)[], abortedAfter = Number.POSITIVE_INFINITY) {
  const pauses: number[] = [];
  let tries = 0;
  const abort = new AbortController();
  const fetchUrl: typeof fetch = async () => {
    if (tries + 1 >= abortedAfter) abort.abort(new Error('another one'));
    const status = answers[Math.min(tries++, answers.length - 1)];
    if (status === null) throw new TypeError('Failed to fetch');
    return Response.json({ hash: HASH }, { status: status ?? 0 });
  };
  const files = runFiles(
    fetchUrl,
    new URL('http://localhost/'),
    () => 'token',
    async (pauseMs) => {
      pauses.push(pauseMs);
    },
  );
  const outcome = await files.upload(new Float32Array(3), SHARD, abort.signal).catch((error: Error) => error.message);
  return { outcome, tries, pauses };
}

test('[SV12] an upload that the network lost, or that could not be kept just then, is tried again', async () => {
  expect(await upload([200])).toEqual({ outcome: HASH, tries: 1, pauses: [] });
  expect(await upload([null, 500, 200])).toEqual({ outcome: HASH, tries: 3, pauses: [1_000, 2_000] });
});

test('[SV50] one that the server finds untrue is sent once more, at once', async () => {
  expect(await upload([422, 200])).toEqual({ outcome: HASH, tries: 2, pauses: [] });
  const { outcome, tries } = await upload([422]);
  expect({ outcome, tries }).toEqual({ outcome: 'api/state was answered with 422 ', tries: 2 });
});

test('it is given up where the server does not want it, and after a minute', async () => {
  expect(await upload([403])).toMatchObject({ outcome: 'api/state was answered with 403 ', tries: 1 });
  const { outcome, tries } = await upload([503]);
  expect({ outcome, tries }).toEqual({ outcome: 'api/state was answered with 503 ', tries: 7 });
});

test('it waits for as long as the server has no room', async () => {
  const full = Array.from({ length: 50 }, () => 507);
  expect(await upload([...full, 200])).toMatchObject({ outcome: HASH, tries: 51 });
});

test('[RE25] it is tried no more once another checkpoint was asked for', async () => {
  expect(await upload([503], 3)).toMatchObject({ outcome: 'another one', tries: 3 });
  expect(await upload([507], 3)).toMatchObject({ outcome: 'another one', tries: 3 });
});

/** A piece of the bytes 1 to 9 from a server whose n-th answer breaks off after so many bytes, or is a status. */
async function piece(breaks: readonly number[], { hasRanges = true } = {}) {
  const asked: (string | null)[] = [];
  const fetchUrl: typeof fetch = async (_url, init) => {
    const range = new Headers(init?.headers).get('range');
    asked.push(range);
    const end = breaks[asked.length - 1] ?? 9;
    if (end >= 400) return new Response('no', { status: end });
    const from = hasRanges ? Number(/\d+/.exec(range ?? '0')?.[0]) : 0;
    const bytes = Uint8Array.from({ length: 9 }, (_, i) => i + 1).subarray(from, end);
    const parts = [bytes.slice(0, 2), bytes.slice(2)].filter(({ length }) => length > 0);
    const body = new ReadableStream({
      pull(controller) {
        const next = parts.shift();
        if (next) controller.enqueue(next);
        else if (end < 9) controller.error(new TypeError('network error'));
        else controller.close();
      },
    });
    return new Response(body, { status: from > 0 ? 206 : 200 });
  };
  const files = runFiles(
    fetchUrl,
    new URL('http://localhost/'),
    () => 'token',
    async () => undefined,
  );
  const outcome = await files.basePiece(HASH).then(
    (bytes) => [...new Uint8Array(bytes)],
    (error: Error) => error.message,
  );
  return { outcome, asked };
}

test('[WI37] a piece whose download breaks off goes on with the byte that did not come', async () => {
  const outcome = [1, 2, 3, 4, 5, 6, 7, 8, 9];
  expect(await piece([])).toEqual({ outcome, asked: [null] });
  expect(await piece([5, 5, 7])).toEqual({ outcome, asked: [null, 'bytes=5-', 'bytes=5-', 'bytes=7-'] });
  // As often as it takes, while more comes each time.
  expect((await piece([1, 2, 3, 4, 5, 6, 7, 8])).asked).toHaveLength(9);
  // From the start where the server sends all of it.
  expect(await piece([5], { hasRanges: false })).toEqual({ outcome, asked: [null, 'bytes=5-'] });
  expect(await piece([3, 3, 3, 3, 3])).toMatchObject({ outcome: 'network error', asked: { length: 4 } });
  expect(await piece([401, 401, 401, 401, 401])).toMatchObject({ asked: { length: 4 } });
});

test('of the initial state only weights are asked for: the moments are zero', async () => {
  const asked: string[] = [];
  const fetchUrl: typeof fetch = async (url) => {
    asked.push(String(url));
    return new Response(new Float32Array([1, 2, 3]));
  };
  const meter = new Meter(
    () => 0,
    () => undefined,
  );
  const traffic = new Traffic({ now: () => 0, wait: async () => undefined });
  const files = meteredFiles(
    runFiles(fetchUrl, new URL('http://localhost/'), () => 'token'),
    meter,
    traffic,
  );
  expect(await files.state(0, 'head', 'm', [2, 5])).toEqual(new Float32Array(3));
  expect(await files.state(0, 'head', 'value', [2, 5])).toEqual(new Float32Array([1, 2, 3]));
  expect(await files.state(4, 'head', 'm', [2, 5])).toEqual(new Float32Array([1, 2, 3]));
  expect(asked).toEqual([
    'http://localhost/api/state/0/head?kind=value&from=2&to=5',
    'http://localhost/api/state/4/head?kind=m&from=2&to=5',
  ]);
});
