/**
 * How long a dispatch may take. Windows resets a GPU after two seconds, browsers end the GPU's process, and a page
 * shares the GPU with whatever draws the screen: so no dispatch is to take longer than 100 ms and no submit much longer
 * than 200. Time is predicted from the kernel's `cost` and two rates of the device, which are assumed low until the
 * admission has measured a layer; only the number of boxes follows from it, and boxes never change a bit (grid.ts).
 */
import { at } from '../../swarm/base.ts';
import { boxesOf } from './grid.ts';
import type { AdapterFamily, Dims, Kernel } from './kernel.ts';
import type { Variant } from './text.ts';

export const LONGEST_DISPATCH_SECONDS = 0.1;
export const LONGEST_SUBMIT_SECONDS = 0.2;
/** A prediction may be off by this factor before a dispatch takes too long: kernels differ in what they reach. */
const SLACK = 3;
/** Attention's share of the products' rate: 0.2 to 0.3 on SwiftShader, more on a GPU. */
const ATTENTION_SHARE = 1 / 4;

interface DispatchRates {
  readonly flopsPerSecond: number;
  readonly bytesPerSecond: number;
}

/** A weak phone's GPU; SwiftShader on two cores, whose admission comes before anything large. */
const ASSUMED: Readonly<Record<AdapterFamily, DispatchRates>> = {
  gpu: { flopsPerSecond: 2e10, bytesPerSecond: 4e9 },
  software: { flopsPerSecond: 1e10, bytesPerSecond: 4e9 },
};

const measured = new WeakMap<GPUDevice, DispatchRates>();

/** What this device is taken to do on average over a layer. */
export const ratesOf = (device: GPUDevice, family: AdapterFamily): DispatchRates =>
  measured.get(device) ?? ASSUMED[family];

/** A layer that was predicted to take `predictedSeconds` took `seconds`. */
export function learnRates(device: GPUDevice, family: AdapterFamily, predictedSeconds: number, seconds: number): void {
  if (!(predictedSeconds > 0 && seconds > 0)) return;
  const { flopsPerSecond, bytesPerSecond } = ratesOf(device, family);
  const factor = predictedSeconds / seconds;
  measured.set(device, { flopsPerSecond: flopsPerSecond * factor, bytesPerSecond: bytesPerSecond * factor });
}

/** Mean time of a whole launch at these rates: bound by arithmetic or by memory. */
function predictedSeconds(kernel: Kernel, dims: Dims, rates: DispatchRates): number {
  const { flops, bytes } = kernel.cost(dims);
  const share = kernel.name.startsWith('attention.') ? ATTENTION_SHARE : 1;
  return Math.max(flops / (share * rates.flopsPerSecond), bytes / rates.bytesPerSecond);
}

/** How a launch is compiled and cut on this device. */
interface LaunchChoice {
  readonly variant: Variant;
  /** Dispatches, at least; more where the grid is larger than WebGPU allows. */
  readonly boxes: number;
  /** Predicted time of all of them. */
  readonly seconds: number;
}

export function chooseLaunch(device: GPUDevice, family: AdapterFamily, kernel: Kernel, dims: Dims): LaunchChoice {
  const seconds = predictedSeconds(kernel, dims, ratesOf(device, family));
  const boxes = Math.max(1, Math.ceil((SLACK * seconds) / LONGEST_DISPATCH_SECONDS));
  return { variant: variantOf(kernel, family, dims, boxes), boxes, seconds };
}

/** The text for so many boxes, at least: as it is where one dispatch does. */
export function variantOf(kernel: Kernel, family: AdapterFamily, dims: Dims, boxes: number): Variant {
  const grid = kernel.source(family, dims).workgroups(dims);
  return { family, inBoxes: boxesOf(grid, boxes).length > 1 };
}

interface Cut {
  /** Predicted time of all dispatches. */
  readonly seconds: number;
  readonly dispatches: readonly unknown[];
}

/** The dispatches of a launch from `from` up to `to`. */
interface Piece<T> {
  readonly launch: T;
  readonly from: number;
  readonly to: number;
}

/** What each submit of a pass does, in order: no submit is predicted to take longer, but for one dispatch that is. */
export function submitsOf<T extends Cut>(launches: readonly T[]): readonly (readonly Piece<T>[])[] {
  const submits: Piece<T>[][] = [[]];
  let seconds = 0;
  for (const launch of launches) {
    const { length } = launch.dispatches;
    const each = launch.seconds / length;
    let from = 0;
    for (let next = 0; next < length; next++) {
      const isFull = seconds + each > LONGEST_SUBMIT_SECONDS;
      const isEmpty = at(submits, submits.length - 1).length === 0 && from === next;
      if (isFull && !isEmpty) {
        if (next > from) at(submits, submits.length - 1).push({ launch, from, to: next });
        submits.push([]);
        from = next;
        seconds = 0;
      }
      seconds += each;
    }
    at(submits, submits.length - 1).push({ launch, from, to: length });
  }
  return submits;
}
