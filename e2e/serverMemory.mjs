/**
 * How much memory the server takes for a gigabyte of text and half a gigabyte of weights, in each thing that it does
 * with them: `node e2e/serverMemory.mjs [--tokenizer]`, on Linux, after a build (`npm test` makes one). It writes 3.5 GB
 * into a temporary folder, takes some minutes, and is no part of `npm test`.
 *
 * 2026-11-21, Node 20.20, two cores under other load (the limit is 400 MB):
 *   a new run: 61.6 s, 16 MB/s of text; at most 211 MB resident
 *   3 donors read checkpoint 0 whole: 13.1 s, 114 MB/s; at most 220 MB
 *   one uploads the embedding with its moments (480 MB): at most 220 MB
 *   the same run again: 11.8 s; at most 195 MB
 *   --tokenizer (50 MB of text): a new run: 43.5 s, 1.1 MB/s of text; at most 351 MB
 */
import { spawn } from 'node:child_process';
import { createWriteStream, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { WebSocket } from 'ws';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const COMMAND = join(ROOT, 'dist', 'server', 'cli.js');
const withTokenizer = process.argv.includes('--tokenizer');
const TEXT_BYTES = withTokenizer ? 50e6 : 1e9;
const DONORS = 3;
const LAYERS = 12;
const WIDTH = 768;
const VOCABULARY = 50_257;
const POSITIONS = 1_024;

const folder = mkdtempSync(join(tmpdir(), 'shoal-memory-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

const model = {
  model_type: 'gpt2',
  n_layer: LAYERS,
  n_head: 12,
  n_embd: WIDTH,
  n_positions: POSITIONS,
  vocab_size: VOCABULARY,
};

function tensors() {
  const layer = (index) => {
    const p = `h.${index}.`;
    return [
      [`${p}ln_1.weight`, [WIDTH]],
      [`${p}ln_1.bias`, [WIDTH]],
      [`${p}attn.c_attn.weight`, [WIDTH, 3 * WIDTH]],
      [`${p}attn.c_attn.bias`, [3 * WIDTH]],
      [`${p}attn.c_proj.weight`, [WIDTH, WIDTH]],
      [`${p}attn.c_proj.bias`, [WIDTH]],
      [`${p}ln_2.weight`, [WIDTH]],
      [`${p}ln_2.bias`, [WIDTH]],
      [`${p}mlp.c_fc.weight`, [WIDTH, 4 * WIDTH]],
      [`${p}mlp.c_fc.bias`, [4 * WIDTH]],
      [`${p}mlp.c_proj.weight`, [4 * WIDTH, WIDTH]],
      [`${p}mlp.c_proj.bias`, [WIDTH]],
    ];
  };
  return [
    ['wte.weight', [VOCABULARY, WIDTH]],
    ['wpe.weight', [POSITIONS, WIDTH]],
    ...Array.from({ length: LAYERS }, (_, index) => layer(index)).flat(),
    ['ln_f.weight', [WIDTH]],
    ['ln_f.bias', [WIDTH]],
  ];
}

/** No two megabytes are alike: equal blobs would be kept once. */
function* numbers(bytes) {
  const piece = new Float32Array(1 << 18);
  for (let at = 0; at < bytes; at += piece.byteLength) {
    for (let i = 0; i < piece.length; i++) piece[i] = Math.sin(at + i) * 0.02;
    yield Buffer.from(piece.buffer.slice(0, Math.min(piece.byteLength, bytes - at)));
  }
}

async function writeInit(path) {
  const header = {};
  let offset = 0;
  for (const [name, shape] of tensors()) {
    const to = offset + shape.reduce((product, size) => product * size, 4);
    header[name] = { dtype: 'F32', shape, data_offsets: [offset, to] };
    offset = to;
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const bytes = function* () {
    yield length;
    yield json;
    yield* numbers(offset);
  };
  await pipeline(Readable.from(bytes()), createWriteStream(path));
}

async function writeText(path) {
  const book = readFileSync(join(ROOT, 'e2e', 'golden', 'gpt2-tiny', 'corpus.txt'), 'utf8');
  const pieces = function* () {
    for (let bytes = 0, number = 0; bytes < TEXT_BYTES; number++) {
      const piece = Buffer.from(`${number}\n${book}`); // no two shards are alike
      bytes += piece.length;
      yield piece;
    }
  };
  await pipeline(Readable.from(pieces()), createWriteStream(path));
}

/** MB, the most so far and now. */
function memory(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const read = (name) => Math.round(Number(new RegExp(`${name}:\\s*(\\d+) kB`).exec(status)?.[1]) * 1.024e-3);
  return { peakMB: read('VmHWM'), nowMB: read('VmRSS') };
}

function startServer(run) {
  const words = ['serve', run, '--schedule', 'gpipe', '--port', '0', '--data-dir', join(folder, 'data')];
  const server = spawn(process.execPath, [COMMAND, ...words], { stdio: ['ignore', 'pipe', 'inherit'] });
  process.on('exit', () => server.kill('SIGKILL'));
  const url = new Promise((resolve, reject) => {
    let text = '';
    server.stdout.on('data', (chunk) => {
      text += chunk;
      const found = /donor page:\s+(\S+?)\/?\n/.exec(text);
      if (found) resolve(found[1]);
    });
    server.on('exit', (code) => reject(new Error(`the server ended with ${code}`)));
  });
  return { server, url };
}

const adapter = { vendor: '', architecture: '', description: '', software: true, browser: '' };

function joinRun(url) {
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/api/donor`);
  const greeting = { type: 'hello', protocol: 1, adapter };
  socket.on('open', () => socket.send(JSON.stringify(greeting)));
  const heartbeat = setInterval(() => socket.readyState === 1 && socket.send('{"type":"heartbeat"}'), 1_000);
  heartbeat.unref();
  return new Promise((resolve, reject) => {
    socket.on('message', (data) => {
      const message = JSON.parse(String(data));
      if (message.type === 'welcome') resolve({ socket, welcome: message });
      if (message.type === 'refused') reject(new Error(message.reason));
    });
    socket.on('error', reject);
  });
}

/** Reads the whole of checkpoint 0, a block at a time. */
async function readState(url, token) {
  const blocks = new Map();
  for (const [name, shape] of tensors()) {
    const layer = /^h\.(\d+)/.exec(name)?.[1];
    const block = layer ? `layer.${layer}` : name.startsWith('ln_f') ? 'head' : 'embedding';
    blocks.set(block, (blocks.get(block) ?? 0) + shape.reduce((product, size) => product * size, 1));
  }
  let bytes = 0;
  for (const [block, elements] of blocks) {
    const path = `/api/state/0/${block}?kind=value&from=0&to=${elements}`;
    const response = await fetch(url + path, { headers: { authorization: `Bearer ${token}` } });
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    for await (const chunk of response.body) bytes += chunk.length;
  }
  return bytes;
}

async function upload(url, token) {
  const bytes = (VOCABULARY + POSITIONS) * WIDTH * 12;
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/octet-stream' };
  const body = Readable.toWeb(Readable.from(numbers(bytes), { objectMode: false }));
  const response = await fetch(`${url}/api/state`, { method: 'PUT', headers, body, duplex: 'half' });
  if (!response.ok) throw new Error(`upload: ${response.status}`);
  return bytes;
}

const lines = [];
async function measured(name, pid, work) {
  const before = performance.now();
  const bytes = await work();
  const seconds = (performance.now() - before) / 1_000;
  const { peakMB, nowMB } = memory(pid());
  const rate = bytes ? `, ${(bytes / 1e6 / seconds).toFixed(1)} MB/s` : '';
  lines.push(`${name}: ${seconds.toFixed(1)} s${rate}; resident ${nowMB} MB, at most ${peakMB} MB`);
  process.stderr.write(`${lines.at(-1)}\n`);
}

const run = {
  name: 'memory',
  model,
  data: { files: ['text.txt'], tokenizer: 'bytes', order: 'shuffled' },
  init: 'init.safetensors',
  train: {
    steps: 10,
    globalBatchSize: 8,
    sequenceLength: 1_024,
    optimizer: { type: 'adamw', learningRate: 1e-4, betas: [0.9, 0.95], epsilon: 1e-8 },
  },
};
if (withTokenizer) run.data.tokenizer = join(ROOT, 'e2e', 'golden', 'tokenizer', 'tokenizer.json');
writeFileSync(join(folder, 'run.json'), JSON.stringify(run));
await writeInit(join(folder, 'init.safetensors'));
await writeText(join(folder, 'text.txt'));
process.stderr.write('text and weights are written\n');

for (const name of ['a new run', 'the same run again']) {
  const { server, url } = startServer(join(folder, 'run.json'));
  const pid = () => server.pid;
  await measured(name, pid, async () => {
    await url;
    return TEXT_BYTES;
  });
  const address = await url;
  const donors = await Promise.all(Array.from({ length: DONORS }, () => joinRun(address)));
  const token = (index) => donors[index].welcome.token;
  await measured(`${DONORS} donors read checkpoint 0`, pid, async () => {
    const read = await Promise.all(donors.map((_, index) => readState(address, token(index))));
    return read.reduce((sum, bytes) => sum + bytes, 0);
  });
  await measured('one uploads the embedding with its moments', pid, () => upload(address, token(0)));
  for (const { socket } of donors) socket.terminate();
  server.removeAllListeners('exit');
  const ended = new Promise((resolve) => server.on('exit', resolve));
  server.kill('SIGINT');
  await ended;
}
process.stdout.write(`${lines.join('\n')}\n`);
process.exit(0);
