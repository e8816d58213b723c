import { expect, test } from 'vitest';
import { runFiles } from './runFiles.ts';

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
