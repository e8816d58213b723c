/**
 * What stands, written as it is kept: values come as floats that were unpacked, and are packed again to the same bits. A range
 * of halves may begin or end inside a word, whose other half came before or comes later.
 */
import { halfBits } from '../../../shaders/kernel/half.ts';
import type { PackedAs } from '../../../shaders/kernel/ofPacked.ts';
import { invariant } from '../../../swarm/base.ts';
import type { Segment } from '../../../swarm/model/layout.ts';
import { INT8_BLOCK, INT8_BLOCK_WORDS, packedInt8 } from '../../../swarm/wire.ts';

export class PackedWriter {
  readonly #device: GPUDevice;
  readonly #buffer: GPUBuffer;
  readonly #as: PackedAs;
  /** Words of which one half is there, by their place. */
  readonly #begun = new Map<number, number>();

  constructor(device: GPUDevice, buffer: GPUBuffer, as: PackedAs) {
    [this.#device, this.#buffer, this.#as] = [device, buffer, as];
  }

  /** Puts `values`, which begin at element `first` of a block, where these segments lie. */
  write(segments: readonly Segment[], first: number, values: Float32Array): void {
    for (const { from, at, length } of segments) {
      const own = values.subarray(from - first, from - first + length);
      if (this.#as === 'f16') this.#writeHalves(at, own);
      else this.#writeCodes(at, own);
    }
  }

  #writeHalves(at: number, values: Float32Array): void {
    const firstWord = at >> 1;
    const words = new Uint32Array(((at + values.length + 1) >> 1) - firstWord);
    const last = words.length - 1;
    for (const word of [0, last]) words[word] = this.#begun.get(firstWord + word) ?? 0;
    for (const [i, value] of values.entries()) {
      const place = at + i;
      const [word, shift] = [(place >> 1) - firstWord, 16 * (place & 1)];
      words[word] = ((words[word] ?? 0) & ~(0xffff << shift)) | (halfBits(value) << shift);
    }
    for (const word of [0, last]) this.#begun.set(firstWord + word, words[word] ?? 0);
    this.#device.queue.writeBuffer(this.#buffer, 4 * firstWord, words);
  }

  #writeCodes(at: number, values: Float32Array): void {
    invariant(at % INT8_BLOCK === 0 && values.length % INT8_BLOCK === 0, 'codes come in whole rows of whole blocks');
    this.#device.queue.writeBuffer(this.#buffer, 4 * (at / INT8_BLOCK) * INT8_BLOCK_WORDS, packedInt8(values));
  }
}
