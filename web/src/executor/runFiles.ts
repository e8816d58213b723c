/**
 * The run's files over HTTP, with this donor's token: token shards, ranges of a checkpoint, pieces of a base, uploads of shards. An upload
 * that the network lost, or that the server could not keep just then, is tried again: without it the checkpoint never
 * becomes whole.
 */
import { at, type Range, totalOf } from '../../../swarm/base.ts';
import { uploadAnswerSchema } from '../../../swarm/messages/messages.ts';
import type { BlockName } from '../../../swarm/model/model.ts';
import { isFirstZero, type StateKind } from '../../../swarm/plan/stateKinds.ts';
import type { Meter } from './meter.ts';
import type { Traffic } from './traffic.ts';

/** The server's HTTP side, with this donor's token. */
export interface RunFiles {
  tokenShard(hash: string): Promise<ArrayBuffer>;
  /** A piece of the weights that stand; where the network loses it, it goes on with the byte that did not come. */
  basePiece(hash: string): Promise<ArrayBuffer>;
  state(checkpoint: number, block: BlockName, kind: StateKind, range: Range): Promise<Float32Array>;
  /**
   * The kinds that a checkpoint has of a shard, one after the other; resolves to the blob's SHA-256. It is tried no more
   * once aborted.
   */
  upload(state: Float32Array, of: StateShard, signal: AbortSignal): Promise<string>;
  /** The same of all that this donor has of an audit's evidence, one tensor after the other. */
  give(values: Float32Array, audit: number, signal: AbortSignal): Promise<string>;
}

/** A range of the state after `step` steps, as the commit of that epoch asked for it. */
interface StateShard {
  readonly epoch: number;
  readonly step: number;
  readonly block: BlockName;
  readonly range: Range;
}

/** The server has no room: the run stands until it has, and nobody is late. */
const NO_ROOM = 507;
const NO_ROOM_PAUSE_MS = 5_000;
/** The server found what came not to be true: it may have come wrong. */
const NOT_TRUE = 422;

/** Before the second try, the third, …: about a minute in all, half of what the server waits. */
const RETRY_PAUSES_MS = [1_000, 2_000, 4_000, 8_000, 16_000, 32_000];

/** Without a byte more: so that a donor whom nobody lets read it does not try for long. */
const BASE_RETRIES = 3;
const PARTIAL = 206;

/** What is smaller is copied at once. */
const BLOB_BYTES = 4 * 1024 * 1024;

type Wait = (milliseconds: number) => Promise<void>;
const timer: Wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export function runFiles(fetchUrl: typeof fetch, base: URL, token: () => string, wait = timer): RunFiles {
  const send = (path: string, init: RequestInit): Promise<Response> =>
    fetchUrl(new URL(path, base), { ...init, headers: { authorization: `Bearer ${token()}`, ...init.headers } });
  const ask = async (path: string, init: RequestInit = {}): Promise<Response> => taken(path, await send(path, init));
  const put = async (path: string, state: Float32Array, signal: AbortSignal): Promise<string> => {
    const init = {
      method: 'PUT',
      headers: { 'content-type': 'application/octet-stream' },
      body: bodyOf(state as Float32Array<ArrayBuffer>),
      signal,
    };
    let isTrue = true;
    const attempt = async (): Promise<Response | null> => {
      for (;;) {
        signal.throwIfAborted();
        const response = await send(path, init).catch(() => null);
        if (response?.status !== NO_ROOM) return response;
        await wait(NO_ROOM_PAUSE_MS);
      }
    };
    for (const pauseMs of RETRY_PAUSES_MS) {
      const response = await attempt();
      const isSentAgain = response === null || response.status >= 500 || (response.status === NOT_TRUE && isTrue);
      if (!isSentAgain) return uploadedHash(taken(path, response));
      if (response?.status === NOT_TRUE) isTrue = false;
      else await wait(pauseMs);
    }
    return uploadedHash(taken(path, await send(path, init)));
  };
  return {
    tokenShard: async (hash) => (await ask(`api/tokens/${hash}`)).arrayBuffer(),
    basePiece: (hash) => {
      const path = `api/base/${hash}`;
      return inParts(wait, (from) =>
        ask(path, { cache: 'no-store', ...(from > 0 && { headers: { range: `bytes=${from}-` } }) }),
      );
    },
    async state(checkpoint, block, kind, [from, to]) {
      const bytes = await (
        await ask(`api/state/${checkpoint}/${block}?kind=${kind}&from=${from}&to=${to}`)
      ).arrayBuffer();
      if (bytes.byteLength !== (to - from) * 4) {
        throw new Error(`${block} [${from}, ${to}) came as ${bytes.byteLength} bytes`);
      }
      return new Float32Array(bytes);
    },
    upload: (state, { epoch, step, block, range: [from, to] }, signal) =>
      put(`api/state?epoch=${epoch}&step=${step}&block=${block}&from=${from}&to=${to}`, state, signal),
    give: (values, audit, signal) => put(`api/evidence?audit=${audit}`, values, signal),
  };
}

/** Of an array of hundreds of megabytes Chromium makes copies for seconds, in which this thread says nothing; of a blob not. */
const bodyOf = (state: Float32Array<ArrayBuffer>): BodyInit =>
  state.byteLength < BLOB_BYTES ? state : new Blob([state]);

/** What is downloaded, by as many answers as it takes: each of the bytes from one on, or of all of them. */
async function inParts(wait: Wait, ask: (from: number) => Promise<Response>): Promise<ArrayBuffer> {
  let came: Uint8Array<ArrayBuffer>[] = [];
  let tries = 0;
  const fetchRest = async (): Promise<void> => {
    const response = await ask(totalOf(came, ({ byteLength }) => byteLength));
    if (response.status !== PARTIAL) came = [];
    for (const reader = response.body?.getReader(); ; ) {
      const { value } = (await reader?.read()) ?? {};
      if (value === undefined) return;
      came.push(value);
      tries = 0;
    }
  };
  for (;;) {
    try {
      await fetchRest();
      return await new Blob(came).arrayBuffer();
    } catch (cause) {
      if (tries >= BASE_RETRIES) throw cause;
      await wait(at(RETRY_PAUSES_MS, tries++));
    }
  }
}

const uploadedHash = async (response: Response): Promise<string> =>
  uploadAnswerSchema.parse(await response.json()).hash;

function taken(path: string, response: Response): Response {
  if (!response.ok)
    throw new Error(`${path.split('?')[0]} was answered with ${response.status} ${response.statusText}`);
  return response;
}

/** The run's files, with what goes to and comes from the server counted, and held back by the donor's caps, as all traffic is. */
export function meteredFiles(files: RunFiles, meter: Meter, traffic: Traffic): RunFiles {
  const received = async <T extends { readonly byteLength: number }>(coming: Promise<T>): Promise<T> => {
    const bytes = await coming;
    meter.received(bytes.byteLength);
    meter.ofFile(bytes.byteLength);
    await traffic.fetched(bytes.byteLength);
    return bytes;
  };
  const leaves = async ({ byteLength }: Float32Array): Promise<void> => {
    await traffic.maySend(null, byteLength);
    meter.sent(byteLength);
    meter.ofFile(byteLength);
  };
  return {
    tokenShard: (hash) => received(files.tokenShard(hash)),
    basePiece: (hash) => received(files.basePiece(hash)),
    state: async (checkpoint, block, kind, [from, to]) =>
      checkpoint === 0 && isFirstZero(kind)
        ? new Float32Array(to - from)
        : received(files.state(checkpoint, block, kind, [from, to])),
    upload: async (state, ...of) => {
      await leaves(state);
      return files.upload(state, ...of);
    },
    give: async (values, ...of) => {
      await leaves(values);
      return files.give(values, ...of);
    },
  };
}
