/**
 * The bytes in which an island's part of a meeting travels, words little-endian. Exchange f32: the differences. Sparse:
 * two magnitudes a run, then of each run as many entries as it can have, a place, a sign and which magnitude, packed bit by
 * bit: 120 bytes a run of 4,096 elements. A run that sends fewer repeats its last entry, so that a packet's size follows
 * from the run file alone. One packet has one form: whatever else would decode is refused.
 */
import { invariant, type Range, type Result, refusal, success, totalOf } from '../base.ts';
import { isSound, LARGEST_SOUND } from '../wire.ts';
import { type Contribution, type MeetingSettings, pieces } from './outer.ts';
import { entriesOf, IS_HIGH, placeOf, type SparseExchange, type SparseRun } from './sparse.ts';

const WORD_BITS = 32;

/** Of the pieces of these tensors. */
export function packetBytes(exchange: MeetingSettings['exchange'], tensors: readonly Range[]): number {
  if (exchange === 'f32') return 4 * tensors.reduce((sum, [from, to]) => sum + to - from, 0);
  // Counted, not listed: a meeting asks for hundreds of thousands of packets.
  let [runs, entries] = [0, 0];
  for (const [from, to] of tensors) {
    const rest = (to - from) % exchange.chunk;
    const whole = (to - from - rest) / exchange.chunk;
    runs += whole + Math.sign(rest);
    entries += whole * entriesOf(exchange, exchange.chunk) + (rest > 0 ? entriesOf(exchange, rest) : 0);
  }
  return 4 * (2 * runs + Math.ceil((entryBits(exchange) * entries) / WORD_BITS));
}

/** `contributions`: one a piece, in the order of `pieces`. */
export function encodePacket(
  exchange: MeetingSettings['exchange'],
  tensors: readonly Range[],
  contributions: readonly Contribution[],
): Uint8Array {
  const words = new Uint32Array(packetBytes(exchange, tensors) / 4);
  if (exchange === 'f32') {
    let end = 0;
    for (const said of contributions) {
      invariant(said instanceof Float32Array, 'exchange f32 sends differences');
      words.set(wordsOf(said), end);
      end += said.length;
    }
  } else encodeRuns(exchange, tensors, contributions, words);
  return littleEndian(new Uint8Array(words.buffer));
}

function encodeRuns(
  exchange: SparseExchange,
  tensors: readonly Range[],
  contributions: readonly Contribution[],
  words: Uint32Array,
): void {
  const lengths = runLengths(exchange, tensors);
  const magnitudes = new Float32Array(words.buffer, 0, 2 * lengths.length);
  const bits = new BitStream(words.subarray(2 * lengths.length));
  for (const [index, length] of lengths.entries()) {
    const run = contributions[index];
    invariant(run && !(run instanceof Float32Array), 'a sparse exchange sends runs');
    magnitudes.set([run.low, run.high], 2 * index);
    for (let i = 0; i < entriesOf(exchange, length); i++)
      bits.write(run.entries[Math.min(i, run.entries.length - 1)] ?? 0, entryBits(exchange));
  }
}

/** The contributions of a packet from outside, one a piece. */
export function decodePacket(
  exchange: MeetingSettings['exchange'],
  tensors: readonly Range[],
  bytes: Uint8Array,
): Result<Contribution[]> {
  const expected = packetBytes(exchange, tensors);
  if (bytes.length !== expected) return refusal(`a packet has ${bytes.length} bytes where ${expected} were expected`);
  const words = new Uint32Array(littleEndian(bytes.slice()).buffer);
  return exchange === 'f32' ? decodeDifferences(tensors, words) : decodeRuns(exchange, tensors, words);
}

function decodeDifferences(tensors: readonly Range[], words: Uint32Array): Result<Contribution[]> {
  if (!isSound('f32', words)) return refusal('a packet has a difference that is no number, or past 2^50');
  const all = new Float32Array(words.buffer);
  let end = 0;
  return success(
    tensors.flatMap((tensor) =>
      [...pieces('f32', tensor)].map(([from, to]) => {
        end += to - from;
        return all.subarray(end - (to - from), end);
      }),
    ),
  );
}

function decodeRuns(exchange: SparseExchange, tensors: readonly Range[], words: Uint32Array): Result<Contribution[]> {
  const lengths = runLengths(exchange, tensors);
  const magnitudes = new Float32Array(words.buffer, 0, 2 * lengths.length);
  const bits = new BitStream(words.subarray(2 * lengths.length));
  const runs: SparseRun[] = [];
  for (const [index, length] of lengths.entries()) {
    const all = new Uint32Array(entriesOf(exchange, length)).map(() => bits.read(entryBits(exchange)));
    const [low = 0, high = 0] = magnitudes.subarray(2 * index, 2 * index + 2);
    const run = high === 0 ? { low, high, entries: all.subarray(0, 0) } : { low, high, entries: withoutRepeats(all) };
    const fault = faultOf(run, all, length);
    if (fault !== null) return refusal(`run ${index} of a packet ${fault}`);
    runs.push(run);
  }
  return bits.isAtEnd() ? success(runs) : refusal('a packet has bits set past its end');
}

function withoutRepeats(entries: Uint32Array): Uint32Array {
  const repeated = entries.findIndex((entry, i) => i > 0 && entry === entries[i - 1]);
  return repeated < 0 ? entries : entries.subarray(0, repeated);
}

/** `all`: the entries as they came, `run`'s and what follows them. */
function faultOf({ low, high, entries }: SparseRun, all: Uint32Array, length: number): string | null {
  const last = entries.at(-1) ?? 0;
  if (all.subarray(entries.length).some((entry) => entry !== last))
    return 'has entries after one that was repeated, which must be the last';
  if (entries.length === 0) return Object.is(low, 0) && Object.is(high, 0) ? null : 'sends nothing with a magnitude';
  if (!(low > 0 && low <= high && high <= LARGEST_SOUND))
    return `has the magnitudes ${low} and ${high}, where two above 0 in ascending order, at most 2^50, were expected`;
  if (entries.some((entry, i) => i > 0 && placeOf(entry) <= placeOf(entries[i - 1] ?? 0)))
    return 'has places that do not ascend';
  if (placeOf(last) >= length) return `has a place past its ${length} elements`;
  const highs = totalOf(entries, (entry) => ((entry & IS_HIGH) === 0 ? 0 : 1));
  if (highs === 0) return 'has no element of the higher magnitude';
  return highs === entries.length && low !== high ? 'has a lower magnitude of no element' : null;
}

const runLengths = (exchange: SparseExchange, tensors: readonly Range[]): number[] =>
  tensors.flatMap((tensor) => [...pieces(exchange, tensor)].map(([from, to]) => to - from));

/** A place in a run, which magnitude, and the sign. */
const entryBits = ({ chunk }: SparseExchange): number => Math.ceil(Math.log2(chunk)) + 2;

const wordsOf = (floats: Float32Array): Uint32Array => new Uint32Array(floats.buffer, floats.byteOffset, floats.length);

const HAS_LITTLE_WORDS = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

/** The words of these bytes to or from the order that this machine has. */
function littleEndian(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  if (!HAS_LITTLE_WORDS) for (let at = 0; at < bytes.length; at += 4) bytes.subarray(at, at + 4).reverse();
  return bytes;
}

/** Numbers of at most 32 bits after one another, the low bits of a word first. */
class BitStream {
  #at = 0;
  readonly #words: Uint32Array;

  constructor(words: Uint32Array) {
    this.#words = words;
  }

  write(value: number, bits: number): void {
    const [word, shift] = [this.#at >>> 5, this.#at & 31];
    this.#words[word] = (this.#words[word] ?? 0) | (value << shift);
    if (shift + bits > WORD_BITS) this.#words[word + 1] = value >>> (WORD_BITS - shift);
    this.#at += bits;
  }

  read(bits: number): number {
    const [word, shift] = [this.#at >>> 5, this.#at & 31];
    const low = (this.#words[word] ?? 0) >>> shift;
    const rest = shift + bits > WORD_BITS ? (this.#words[word + 1] ?? 0) << (WORD_BITS - shift) : 0;
    this.#at += bits;
    return (low | rest) & (bits === WORD_BITS ? -1 : 2 ** bits - 1);
  }

  /** Whether nothing is left but zeros. */
  isAtEnd(): boolean {
    const [word, shift] = [this.#at >>> 5, this.#at & 31];
    return shift === 0 || (this.#words[word] ?? 0) >>> shift === 0;
  }
}
