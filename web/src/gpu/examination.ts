/**
 * Whether a GPU computes right, and with which kernels. A matrix unit is a gain that nobody depends on, so its products
 * are examined first and by themselves; where one is wrong, the plain kernels take their place and are examined as
 * anyone's, and only what is wrong with those is a refusal.
 *
 * The choice is a function of adapter and run: the cases are seeded, and those on a unit are all compared, however long
 * that takes. What is right is remembered by adapter, model and the kernels' own text, which stands for the build.
 */
import type { MatrixUnit } from '../../../shaders/family/matrixUnit.ts';
import { textOf } from '../../../shaders/kernel/text.ts';
import { type Result, success } from '../../../swarm/base.ts';
import { DETAIL_LENGTH_LIMIT } from '../../../swarm/fields.ts';
import type { AdapterProfile, Profile } from '../../../swarm/messages/profile.ts';
import type { Model } from '../../../swarm/model/model.ts';
import type { Compute } from '../../../swarm/precision.ts';
import type { CodedState, RunWire } from '../../../swarm/wire.ts';
import type { Gpu } from './device.ts';
import { CHECK_SECONDS, checkKernels, type KernelCase, kernelCases, type StepShape } from './kernelCheck.ts';

/** What outlives the tab. */
export interface Memory {
  recall(key: string): Promise<string | null>;
  remember(key: string, value: string): Promise<void>;
}

export interface Examinee {
  readonly gpu: Gpu;
  readonly adapter: AdapterProfile;
  readonly model: Model;
  readonly step: StepShape;
  readonly wire: RunWire;
  readonly compute: Compute;
  /** Absent: gradient sums and values travel as floats. */
  readonly stateWire?: CodedState | undefined;
  readonly memory: Memory;
  /** The most that the donor gives; null or absent: no cap. */
  readonly memoryBytes?: number | null;
  /** Seconds. */
  readonly now: () => number;
}

/** The part of a profile that says what was examined. */
type Examination = Pick<Profile, 'checkedKernels' | 'wrongUnit'>;

/** Or the sentence that says what is wrong with this GPU. From here on `gpu.units` are those that the run computes with. */
export async function examine(examinee: Examinee): Promise<Result<Examination>> {
  const { gpu, compute } = examinee;
  const units = gpu.offeredUnits;
  const onUnit = await checked(examinee, units, (one) => one.isOnUnit, Number.POSITIVE_INFINITY);
  gpu.units = onUnit.ok ? units : units.filter(({ component }) => component !== compute);
  const others = await checked(examinee, gpu.units, (one) => !one.isOnUnit, CHECK_SECONDS);
  if (!others.ok) return others;
  return success(
    onUnit.ok
      ? { checkedKernels: onUnit.value + others.value }
      : { checkedKernels: others.value, wrongUnit: onUnit.reason.slice(0, DETAIL_LENGTH_LIMIT) },
  );
}

/** How many were compared; none of those that an earlier visit found right. */
async function checked(
  examinee: Examinee,
  units: readonly MatrixUnit[],
  concerns: (one: KernelCase) => boolean,
  forSeconds: number,
): Promise<Result<number>> {
  const { gpu, model, step, wire, compute, stateWire, memory, memoryBytes, now } = examinee;
  const cases = kernelCases({ ...gpu, units }, model, step, wire, compute, stateWire).filter(concerns);
  if (cases.length === 0) return success(0);
  const key = `checked ${await fingerprint(examinee, cases)}`;
  if ((await memory.recall(key)) !== null) return success(0);
  const result = await checkKernels(gpu, cases, now, { forSeconds, memoryBytes });
  if (result.ok) await memory.remember(key, 'right');
  return result;
}

/** SHA-256 over what the verdict depends on. */
async function fingerprint({ gpu, adapter }: Examinee, cases: readonly KernelCase[]): Promise<string> {
  const texts = cases.map(({ kernel, dims }) => [
    kernel.name,
    dims,
    textOf(kernel, dims, { family: gpu.family, inBoxes: false }),
  ]);
  const bytes = new TextEncoder().encode(JSON.stringify([adapter, gpu.family, texts]));
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
