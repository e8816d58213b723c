/**
 * In place of the browser's digests while a simulation plays: those are computed by other threads, whose time is not the
 * simulation's. Equal bytes have equal digests, as good as always others have others; it keeps nobody out.
 */
const LANES = 8;
const PRIME = 16_777_619;

function digestOf(data: BufferSource): ArrayBuffer {
  const bytes =
    data instanceof ArrayBuffer ? new Uint8Array(data) : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const lanes = Uint32Array.from({ length: LANES }, (_, lane) => 2_166_136_261 ^ lane);
  for (const [index, byte] of bytes.entries())
    for (const lane of [index % LANES, (index + 3) % LANES]) lanes[lane] = Math.imul((lanes[lane] ?? 0) ^ byte, PRIME);
  // Each lane has seen all bytes in the end.
  for (let round = 0; round < 2 * LANES; round++)
    lanes[round % LANES] =
      Math.imul((lanes[round % LANES] ?? 0) ^ (lanes[(round + 1) % LANES] ?? 0), PRIME) ^ (round + 1);
  return lanes.buffer;
}

/** As text, as a blob's name is. */
export const nameOf = (data: BufferSource): string =>
  Array.from(new Uint8Array(digestOf(data)), (byte) => byte.toString(16).padStart(2, '0')).join('');

/** Gives them back. */
export function takeDigests(): () => void {
  const { subtle } = crypto;
  const digest = (_algorithm: AlgorithmIdentifier, data: BufferSource) => Promise.resolve(digestOf(data));
  Object.defineProperty(subtle, 'digest', { value: digest, configurable: true });
  // A simulation has one seed.
  Object.defineProperty(crypto, 'getRandomValues', {
    value: (values: Uint32Array) => values.fill(7),
    configurable: true,
  });
  return () => {
    Reflect.deleteProperty(subtle, 'digest');
    Reflect.deleteProperty(crypto, 'getRandomValues');
  };
}
