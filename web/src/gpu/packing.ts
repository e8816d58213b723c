/**
 * The stream on its way out of and into a stage, as kernel calls: what another peer is to get is packed into the stage's
 * one `wire` buffer at the end of the pass that makes it, and copied from there next; what another peer sent lies there
 * until it is unpacked at the start of the pass that reads it. The queue's order keeps the two apart. Floats of a stage that keeps floats need
 * nothing of it; a stage that keeps halves packs floats too, for itself as another stage's neighbour.
 */
import { copyIn, copyOut } from '../../../shaders/arrays/copy.ts';
import type { BufferSlice } from '../../../shaders/kernel/launch.ts';
import { packF16 } from '../../../shaders/wire/packF16.ts';
import { packInt4, packInt4Drawn } from '../../../shaders/wire/packInt4.ts';
import { packInt8, packInt8Feedback } from '../../../shaders/wire/packInt8.ts';
import { unpackF16 } from '../../../shaders/wire/unpackF16.ts';
import { unpackInt4 } from '../../../shaders/wire/unpackInt4.ts';
import { unpackInt8 } from '../../../shaders/wire/unpackInt8.ts';
import { assertNever } from '../../../swarm/base.ts';
import { WIRE, WIRE_KEY, WIRE_RESIDUAL } from '../../../swarm/memory/memory.ts';
import { INPUT, type Program, STREAM } from '../../../swarm/model/program.ts';
import type { Compute } from '../../../swarm/precision.ts';
import { gradientGain, type WireEncoding } from '../../../swarm/wire.ts';
import { call, type KernelCall } from './kernelCall.ts';
import type { Places } from './places.ts';

/** For one micro-batch size in one slot; none where there is no neighbour. */
export interface Packing {
  readonly packOutput: readonly KernelCall[];
  readonly unpackInput: readonly KernelCall[];
  readonly packGradient: readonly KernelCall[];
  readonly unpackGradient: readonly KernelCall[];
}

function asFloats({ first, last, output }: Program, places: Places): Packing {
  const packed = places.buffer(WIRE);
  const dims = { n: places.samples * places.sequence * places.width, offset: 0 };
  const pack = (label: string, name: string): KernelCall => {
    return call(copyOut, { x: places.buffer(name), y: packed }, dims, label);
  };
  const unpack = (label: string, name: string): KernelCall => {
    return call(copyIn, { x: packed, y: places.buffer(name) }, dims, label);
  };
  return {
    packOutput: last ? [] : [pack('output', output)],
    unpackInput: first ? [] : [unpack('input', INPUT)],
    packGradient: first ? [] : [pack('gradient', STREAM)],
    unpackGradient: last ? [] : [unpack('gradient', STREAM)],
  };
}

/** The encodings in which a stage gives and takes the stream by way of its `wire` buffer. */
export function encodingsOf(
  { first, last }: Program,
  wires: readonly WireEncoding[],
  compute: Compute,
): readonly WireEncoding[] {
  if (first && last) return [];
  const packed = wires.filter((wire) => wire !== 'f32');
  return compute === 'f16' ? ['f32', ...packed] : packed;
}

/** `isScaled`: gradients are multiplied with the run's loss scale already, as halves want it. */
export function packingOf(program: Program, places: Places, wire: WireEncoding, isScaled = false): Packing {
  if (wire === 'f32') return asFloats(program, places);
  const { first, last, output } = program;
  const n = places.samples * places.sequence * places.width;
  const gain = isScaled ? 1 : gradientGain(1 / places.lossScale);
  const way = { packed: places.buffer(WIRE), n, places, wire };
  return {
    packOutput: last ? [] : [packCall({ ...way, gain: 1, isGradient: false }, output, 'pack output')],
    unpackInput: first ? [] : [unpackCall({ ...way, gain: 1 }, INPUT, 'unpack input')],
    packGradient: first ? [] : [packCall({ ...way, gain, isGradient: true }, STREAM, 'pack gradient')],
    unpackGradient: last ? [] : [unpackCall({ ...way, gain: 1 / gain }, STREAM, 'unpack gradient')],
  };
}

interface Way {
  readonly wire: Exclude<WireEncoding, 'f32'>;
  readonly places: Places;
  readonly packed: BufferSlice;
  readonly n: number;
  readonly gain: number;
}

/** `isGradient`: a sum of many is made of it, which what the codes miss must not bias. */
function packCall(
  { wire, places, packed, n, gain, isGradient }: Way & { readonly isGradient: boolean },
  name: string,
  label: string,
): KernelCall {
  const buffers = { x: places.buffer(name), packed };
  switch (wire) {
    case 'f16':
      return call(packF16, buffers, { n, gain }, label);
    case 'int8':
      if (!isGradient) return call(packInt8, buffers, { n }, label);
      return call(packInt8Feedback, { ...buffers, residual: places.buffer(WIRE_RESIDUAL) }, { n }, label);
    case 'int4':
      if (!isGradient) return call(packInt4, buffers, { n, gain }, label);
      return call(packInt4Drawn, { ...buffers, key: places.buffer(WIRE_KEY) }, { n, gain }, label);
    default:
      return assertNever(wire);
  }
}

function unpackCall({ wire, places, packed, n, gain }: Way, name: string, label: string): KernelCall {
  const buffers = { packed, x: places.buffer(name) };
  switch (wire) {
    case 'f16':
      return call(unpackF16, buffers, { n, gain }, label);
    case 'int8':
      return call(unpackInt8, buffers, { n }, label);
    case 'int4':
      return call(unpackInt4, buffers, { n, gain }, label);
    default:
      return assertNever(wire);
  }
}
