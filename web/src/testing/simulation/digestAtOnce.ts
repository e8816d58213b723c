/**
 * In place of the browser's digests while a simulation plays: those are computed by other threads, whose time is not the
 * simulation's. Equal bytes have equal digests, as good as always others have others; it keeps nobody out.
 */
const LANES = 8;
const PRIME = 16_777_619;

function digest(_algorithm: AlgorithmIdentifier, data: BufferSource): Promise<ArrayBuffer> {
  const bytes =
    data instanceof ArrayBuffer ? new Uint8Array(data) : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const lanes = Uint32Array.from({ length: LANES }, (_, lane) => 2_166_136_261 ^ lane);
  for (const [index, byte] of bytes.entries())
    for (const lane of [index % LANES, (index + 3) % LANES]) lanes[lane] = Math.imul((lanes[lane] ?? 0) ^ byte, PRIME);
  // Each lane has seen all bytes in the end.
  for (let round = 0; round < 2 * LANES; round++)
    lanes[round % LANES] =
      Math.imul((lanes[round % LANES] ?? 0) ^ (lanes[(round + 1) % LANES] ?? 0), PRIME) ^ (round + 1);
  return Promise.resolve(lanes.buffer);
}

/** Gives them back. */
export function takeDigests(): () => void {
  const { subtle } = crypto;
  Object.defineProperty(subtle, 'digest', { value: digest, configurable: true });
  return () => {
    Reflect.deleteProperty(subtle, 'digest');
  };
}
