/**
 * The stream on its way out of and into a stage, as kernel calls: what another peer is to get is packed into the stage's
 * one `wire` buffer at the end of the pass that makes it, and copied from there next; what another peer sent lies there
 * until it is unpacked at the start of the pass that reads it. The queue's order keeps the two apart. Floats of a stage that keeps floats need
 * nothing of it; a stage that keeps halves packs floats too, for itself as another stage's neighbour.
 */
import { copyIn, copyOut } from '../../../shaders/arrays/copy.ts';
import { packF16 } from '../../../shaders/wire/packF16.ts';
import { packInt8, packInt8Feedback } from '../../../shaders/wire/packInt8.ts';
import { unpackF16 } from '../../../shaders/wire/unpackF16.ts';
import { unpackInt8 } from '../../../shaders/wire/unpackInt8.ts';
import { WIRE, WIRE_RESIDUAL } from '../../../swarm/memory/memory.ts';
import { INPUT, type Program, STREAM } from '../../../swarm/model/program.ts';
import type { Compute } from '../../../swarm/precision.ts';
import { gradientGain, type WireEncoding } from '../../../swarm/wire.ts';
import { call, type KernelCall } from './kernelCall.ts';
import type { Places } from './operations.ts';

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
export function encodingsOf({ first, last }: Program, wire: WireEncoding, compute: Compute): readonly WireEncoding[] {
  if (first && last) return [];
  if (compute === 'f16') return wire === 'f32' ? ['f32'] : ['f32', wire];
  return wire === 'f32' ? [] : [wire];
}

/** `isScaled`: gradients are multiplied with the run's loss scale already, as halves want it. */
export function packingOf(program: Program, places: Places, wire: WireEncoding, isScaled = false): Packing {
  const { first, last, output } = program;
  if (wire === 'f32') return asFloats(program, places);
  const packed = places.buffer(WIRE);
  const n = places.samples * places.sequence * places.width;
  const gain = isScaled ? 1 : gradientGain(1 / places.lossScale);
  const half = wire === 'f16';
  const pack = (label: string, name: string, isGradient: boolean): KernelCall => {
    const buffers = { x: places.buffer(name), packed };
    if (half) return call(packF16, buffers, { n, gain: isGradient ? gain : 1 }, label);
    if (!isGradient) return call(packInt8, buffers, { n }, label);
    return call(packInt8Feedback, { ...buffers, residual: places.buffer(WIRE_RESIDUAL) }, { n }, label);
  };
  const unpack = (label: string, name: string, isGradient: boolean): KernelCall => {
    const buffers = { packed, x: places.buffer(name) };
    if (half) return call(unpackF16, buffers, { n, gain: isGradient ? 1 / gain : 1 }, label);
    return call(unpackInt8, buffers, { n }, label);
  };
  return {
    packOutput: last ? [] : [pack('pack output', output, false)],
    unpackInput: first ? [] : [unpack('unpack input', INPUT, false)],
    packGradient: first ? [] : [pack('pack gradient', STREAM, true)],
    unpackGradient: last ? [] : [unpack('unpack gradient', STREAM, true)],
  };
}
