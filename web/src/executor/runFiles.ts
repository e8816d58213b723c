/** The run's files over HTTP, with this donor's token: token shards, ranges of a checkpoint, uploads of shards. */
import { uploadAnswerSchema } from '../../../swarm/messages.ts';
import type { RunFiles } from './session.ts';

export function runFiles(fetchUrl: typeof fetch, base: URL, token: string): RunFiles {
  const headers = { authorization: `Bearer ${token}` };
  const ask = async (path: string, init: RequestInit = {}): Promise<Response> => {
    const response = await fetchUrl(new URL(path, base), { ...init, headers: { ...headers, ...init.headers } });
    if (!response.ok) throw new Error(`${path} was answered with ${response.status} ${response.statusText}`);
    return response;
  };
  return {
    tokenShard: async (hash) => (await ask(`api/tokens/${hash}`)).arrayBuffer(),
    async state(checkpoint, block, kind, [from, to]) {
      const bytes = await (
        await ask(`api/state/${checkpoint}/${block}?kind=${kind}&from=${from}&to=${to}`)
      ).arrayBuffer();
      if (bytes.byteLength !== (to - from) * 4) {
        throw new Error(`${block} [${from}, ${to}) came as ${bytes.byteLength} bytes`);
      }
      return new Float32Array(bytes);
    },
    async upload(state) {
      const response = await ask('api/state', {
        method: 'PUT',
        headers: { 'content-type': 'application/octet-stream' },
        body: state as Float32Array<ArrayBuffer>,
      });
      return uploadAnswerSchema.parse(await response.json()).hash;
    },
  };
}
