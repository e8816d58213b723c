/**
 * From a stage's kernel calls to its launches: every pipeline compiled in parallel, then all bind groups made, each call
 * once however often it is listed. Each kernel is in the form that suits the device and the stage's precision.
 */

import { forDevice } from '../../../shaders/forDevice.ts';
import type { Dims } from '../../../shaders/kernel/kernel.ts';
import { closeLaunch, createLaunch, type Launch } from '../../../shaders/kernel/launch.ts';
import { ofPacked } from '../../../shaders/kernel/ofPacked.ts';
import { chooseLaunch } from '../../../shaders/kernel/watchdog.ts';
import { crossEntropy } from '../../../shaders/loss/crossEntropy.ts';
import { at, invariant } from '../../../swarm/base.ts';
import type { Compute } from '../../../swarm/precision.ts';
import type { WireEncoding } from '../../../swarm/wire.ts';
import { created } from './buffers.ts';
import type { Gpu } from './device.ts';
import type { KernelCall } from './kernelCall.ts';
import type { MicroBatchCalls } from './microBatchCalls.ts';
import type { Packing } from './packing.ts';
import type { SlotCalls } from './stageCalls.ts';

type Launched<Calls> = { readonly [Pass in keyof Calls]: readonly Launch[] };

/** What a micro-batch does in a slot, as launches. */
export interface Launches extends Launched<MicroBatchCalls> {
  /** The forward, a list for each block. */
  readonly blocks: readonly (readonly Launch[])[];
  readonly packing: ReadonlyMap<WireEncoding, Launched<Packing>>;
}

export interface Compiled {
  /** By `slotKey`. */
  readonly launches: ReadonlyMap<string, Launches>;
  /** Where the share of a target in the step's loss enters the gradients, with their dims. */
  readonly losses: readonly { readonly launch: Launch; readonly dims: Dims }[];
}

/** Every call that there is to do, once: what forwards run comes first. */
export function everyCall(slots: readonly SlotCalls[]): KernelCall[] {
  const first = slots.flatMap(({ packing, forward }) => {
    const packings = [...packing.values()];
    return [...packings.flatMap((one) => one.unpackInput), ...forward, ...packings.flatMap((one) => one.packOutput)];
  });
  const rest = slots.flatMap(({ packing, blocks: _, ...calls }) => [calls, ...packing.values()].flatMap(callsOf));
  return [...new Set([...first, ...rest])];
}

/** Pipelines, all of them asked for at once. `compute` null: the kernels are in the form that this device runs. */
export function compiledCalls(gpu: Gpu, compute: Compute | null, calls: readonly KernelCall[]) {
  const { device, family, pipelines } = gpu;
  return Promise.all(
    calls.map(async (call) => {
      const packed = Object.entries(call.buffers).flatMap(([name, { packed: as }]) =>
        as ? [[name, as] as const] : [],
      );
      const own = compute === null ? call.kernel : forDevice(gpu, compute, call.kernel);
      const kernel = ofPacked(own, packed);
      const choice = chooseLaunch(device, family, kernel, call.dims);
      return { call, kernel, choice, pipeline: await pipelines.get(kernel, call.dims, choice.variant) };
    }),
  );
}

/** A launch for each call, in their order. */
export async function launchesOf(gpu: Gpu, compute: Compute | null, calls: readonly KernelCall[]): Promise<Launch[]> {
  return boundLaunches(gpu, await compiledCalls(gpu, compute, calls));
}

const boundLaunches = ({ device }: Gpu, compiled: Awaited<ReturnType<typeof compiledCalls>>): Promise<Launch[]> =>
  created(device, 'bind groups', () =>
    compiled.map(({ call, kernel, choice, pipeline }) =>
      createLaunch({ device, pipeline, ...choice, ...call, kernel }),
    ),
  );

export async function compileCalls(
  gpu: Gpu,
  compute: Compute,
  slots: ReadonlyMap<string, SlotCalls>,
): Promise<Compiled> {
  const compiled = await compiledCalls(gpu, compute, everyCall([...slots.values()]));
  const bound = await boundLaunches(gpu, compiled);
  const made = new Map(compiled.map(({ call }, place) => [call, at(bound, place)]));
  const launchOf = (call: KernelCall): Launch => {
    const launch = made.get(call);
    invariant(launch, `${call.label} was not compiled`);
    return launch;
  };
  const launches = new Map<string, Launches>();
  for (const [key, { packing, blocks, ...calls }] of slots) {
    launches.set(key, {
      forward: calls.forward.map(launchOf),
      evaluation: calls.evaluation.map(launchOf),
      recompute: calls.recompute.map(launchOf),
      backward: calls.backward.map(launchOf),
      blocks: blocks.map((calls) => calls.map(launchOf)),
      packing: new Map(Array.from(packing, ([encoding, passes]) => [encoding, packingLaunches(passes, launchOf)])),
    });
  }
  const losses = [...made]
    .filter(([{ kernel }]) => kernel === crossEntropy)
    .map(([{ dims }, launch]) => ({ launch, dims }));
  return { launches, losses };
}

const callsOf = (passes: MicroBatchCalls | Packing): KernelCall[] =>
  Object.values<readonly KernelCall[]>({ ...passes }).flat();

const packingLaunches = (passes: Packing, launchOf: (call: KernelCall) => Launch): Launched<Packing> => ({
  packOutput: passes.packOutput.map(launchOf),
  unpackInput: passes.unpackInput.map(launchOf),
  packGradient: passes.packGradient.map(launchOf),
  unpackGradient: passes.unpackGradient.map(launchOf),
});

/** Frees what only the launches own. */
export function closeCompiled({ launches }: Compiled): void {
  for (const { packing, blocks: _, ...own } of launches.values()) {
    for (const passes of [own, ...packing.values()]) {
      Object.values<readonly Launch[]>({ ...passes })
        .flat()
        .forEach(closeLaunch);
    }
  }
}
