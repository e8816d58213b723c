/**
 * From a stage's dispatches to its launches: every pipeline compiled in parallel, then all bind groups made, each dispatch
 * once however often it is listed. Each kernel is in the form that suits the device and the stage's precision.
 */

import { forDevice } from '../../../shaders/forDevice.ts';
import type { Dims } from '../../../shaders/kernel.ts';
import { createLaunch, type Launch } from '../../../shaders/launch.ts';
import { crossEntropy } from '../../../shaders/loss/crossEntropy.ts';
import { chooseLaunch } from '../../../shaders/watchdog.ts';
import { invariant } from '../../../swarm/base.ts';
import type { Compute } from '../../../swarm/precision.ts';
import type { WireEncoding } from '../../../swarm/wire.ts';
import { created } from './buffers.ts';
import type { Gpu } from './device.ts';
import type { Dispatch } from './dispatch.ts';
import type { Packing } from './packing.ts';
import type { StageWork } from './stageWorks.ts';
import type { Work } from './work.ts';

type Launched<Parts> = { readonly [Part in keyof Parts]: readonly Launch[] };

/** A stage's work as launches. */
export interface Launches extends Launched<Work> {
  readonly packing: ReadonlyMap<WireEncoding, Launched<Packing>>;
}

export interface Compiled {
  /** By the key of the work. */
  readonly launches: ReadonlyMap<string, Launches>;
  /** Where the loss scale enters the gradients, with the dims of a scale of 1. */
  readonly losses: readonly { readonly launch: Launch; readonly dims: Dims }[];
}

export async function compileWork(
  { device, family, units, pipelines }: Gpu,
  compute: Compute,
  works: ReadonlyMap<string, StageWork>,
): Promise<Compiled> {
  const all = new Set<Dispatch>();
  for (const { work, packing } of works.values()) {
    for (const parts of [work, ...packing.values()]) for (const dispatch of dispatchesOf(parts)) all.add(dispatch);
  }
  const compiled = await Promise.all(
    Array.from(all, async (dispatch) => {
      const kernel = forDevice(units, compute, dispatch.kernel);
      const choice = chooseLaunch(device, family, kernel, dispatch.dims);
      return { dispatch, kernel, choice, pipeline: await pipelines.get(kernel, choice.variant) };
    }),
  );
  const made = await created(device, 'bind groups', () => {
    const launch = ({ dispatch, kernel, choice, pipeline }: (typeof compiled)[number]): [Dispatch, Launch] => [
      dispatch,
      createLaunch({ device, pipeline, ...choice, ...dispatch, kernel }),
    ];
    return new Map(compiled.map(launch));
  });
  const launchOf = (dispatch: Dispatch): Launch => {
    const launch = made.get(dispatch);
    invariant(launch, `${dispatch.label} was not compiled`);
    return launch;
  };
  const launches = new Map<string, Launches>();
  for (const [key, { work, packing }] of works) {
    launches.set(key, {
      forward: work.forward.map(launchOf),
      evaluation: work.evaluation.map(launchOf),
      recompute: work.recompute.map(launchOf),
      backward: work.backward.map(launchOf),
      packing: new Map(Array.from(packing, ([encoding, parts]) => [encoding, packingLaunches(parts, launchOf)])),
    });
  }
  const losses = [...made]
    .filter(([{ kernel }]) => kernel === crossEntropy)
    .map(([{ dims }, launch]) => ({ launch, dims }));
  return { launches, losses };
}

const dispatchesOf = (parts: Work | Packing): Dispatch[] => Object.values<readonly Dispatch[]>({ ...parts }).flat();

const packingLaunches = (parts: Packing, launchOf: (dispatch: Dispatch) => Launch): Launched<Packing> => ({
  packOutput: parts.packOutput.map(launchOf),
  unpackInput: parts.unpackInput.map(launchOf),
  packGradient: parts.packGradient.map(launchOf),
  unpackGradient: parts.unpackGradient.map(launchOf),
});

/** Frees what only the launches own. */
export function closeCompiled({ launches }: Compiled): void {
  for (const { packing, ...work } of launches.values()) {
    for (const parts of [work, ...packing.values()]) {
      for (const launch of Object.values<readonly Launch[]>({ ...parts }).flat()) launch.dimsBuffer.destroy();
    }
  }
}
