/**
 * Whether a GPU computes right, and with which kernels. A matrix unit is a gain that nobody depends on, so its products
 * are examined first and by themselves; where one is wrong, the plain kernels take their place and are examined as
 * anyone's, and only what is wrong with those is a refusal.
 *
 * The choice is a function of adapter and run: the cases are seeded, and those on a unit are all compared, however long
 * that takes. A case that is right is remembered for a week, by adapter, browser, shape and the kernel's own text: no visit
 * compares it again, and each goes on where time ended the one before. After a fault the page forgets all of them.
 */
import type { MatrixUnit } from '../../../shaders/family/matrixUnit.ts';
import { textOf } from '../../../shaders/kernel/text.ts';
import { got, type Result, success } from '../../../swarm/base.ts';
import { DETAIL_LENGTH_LIMIT } from '../../../swarm/fields.ts';
import type { AdapterProfile, Profile } from '../../../swarm/messages/profile.ts';
import type { Model } from '../../../swarm/model/model.ts';
import type { Compute } from '../../../swarm/precision.ts';
import type { CodedState, RunWire } from '../../../swarm/wire.ts';
import type { Gpu } from './device.ts';
import { CHECK_SECONDS, checkKernels, type KernelCase, kernelCases, type StepShape } from './kernelCheck.ts';

const DAY_MS = 86_400_000;
const FRESH_DAYS = 7;
/** A model has some fifty cases. */
const MOST_KEPT = 400;

/** What outlives the tab: which cases were right. */
export interface Memory {
  recall(): Promise<string | null>;
  remember(checks: string): Promise<void>;
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
  /** Of this computer's calendar. */
  readonly wallMs: () => number;
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

/** How many were compared: none of those that an earlier visit found right. */
async function checked(
  examinee: Examinee,
  units: readonly MatrixUnit[],
  concerns: (one: KernelCase) => boolean,
  forSeconds: number,
): Promise<Result<number>> {
  const { gpu, model, step, wire, compute, stateWire, memory, memoryBytes, now, wallMs } = examinee;
  const cases = kernelCases({ ...gpu, units }, model, step, wire, compute, stateWire).filter(concerns);
  if (cases.length === 0) return success(0);
  const prints = new Map<KernelCase, string>();
  for (const one of cases) prints.set(one, await fingerprint(examinee, one));
  const day = Math.floor(wallMs() / DAY_MS);
  const known = rightSince(await memory.recall(), day);
  const left = cases.filter((one) => !known.has(got(prints, one)));
  const result = await checkKernels(gpu, left, now, { forSeconds, memoryBytes });
  if (!result.ok) return result;
  if (result.value.length === 0) return success(0);
  const found = result.value.map((one) => [got(prints, one), day] as const);
  // Another tab may have found something meanwhile.
  const all = [...rightSince(await memory.recall(), day), ...found].slice(-MOST_KEPT);
  await memory.remember(all.map((entry) => entry.join(' ')).join('\n'));
  return success(result.value.length);
}

/** The fingerprints in a kept text, in its order, that are fresh on this day, each with its own; what is no such line is passed over. */
function rightSince(text: string | null, day: number): ReadonlyMap<string, number> {
  const lines = [...(text ?? '').matchAll(/^([0-9a-f]{32}) ([0-9]{1,9})$/gm)];
  return new Map(
    lines
      .map(([, print = '', found]) => [print, Number(found)] as const)
      .filter(([, found]) => found <= day && day < found + FRESH_DAYS),
  );
}

/** Of a SHA-256 over what the verdict on a case depends on. */
async function fingerprint(
  { gpu: { family }, adapter }: Examinee,
  { kernel, dims, isReal }: KernelCase,
): Promise<string> {
  const text = textOf(kernel, dims, { family, inBoxes: false });
  const bytes = new TextEncoder().encode(JSON.stringify([adapter, family, kernel.name, dims, isReal === true, text]));
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(hash.subarray(0, 16), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
