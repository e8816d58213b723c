/** The benchmark's page: `shoal bench` drives it in a headless browser through `shoalBench`. Nothing links to it. */
import '../../../web/src/page/noEval.ts';
import { type Result, success } from '../../../swarm/base.ts';
import type { BlockName } from '../../../swarm/model/model.ts';
import type { Compute } from '../../../swarm/precision.ts';
import { measurable, type OpenDevice, openDevice } from '../../../web/src/gpu/device.ts';
import { benchKernels, type KernelBench } from './kernels.ts';
import type { BenchSize } from './sizes.ts';
import { benchStep, type StepBench, type StepBenchResult } from './step.ts';
import { benchStepKernels, type StepKernels } from './stepKernels.ts';
import { type Carrier, type TransportBenchResult, TransportEnd } from './transport.ts';
import { type Tuned, tuneProducts } from './tune.ts';
import { unlessLost } from './unlessLost.ts';

export interface BenchPage {
  /** `weights`: folder of the page's server with one file of floats a block; null: drawn from a seed. */
  step(bench: StepBench, weights: string | null): Promise<Result<StepBenchResult>>;
  kernels(): Promise<Result<KernelBench[]>>;
  stepKernels(size: BenchSize, compute: Compute): Promise<Result<StepKernels>>;
  tune(sizes: readonly BenchSize[], compute: Compute): Promise<Result<Tuned>>;
  /** One end of the transport's benchmark, in each of two tabs; `shoalSignal` of the window carries to the other one. */
  openTransport(initiator: boolean): void;
  transportSignalled(way: Carrier, data: string): Promise<void>;
  measureTransport(): Promise<TransportBenchResult>;
}

type Signal = (way: Carrier, data: string) => void;
let transport: TransportEnd | null = null;

function openedTransport(): TransportEnd {
  if (!transport) throw new Error('openTransport comes first');
  return transport;
}

const CLOCK = {
  now: () => performance.now() / 1000,
  wait: (seconds: number) => new Promise<void>((resolve) => setTimeout(resolve, seconds * 1000)),
};

/** What a device that computes so can do, or why there is none. */
async function onDevice<T>(compute: Compute, work: (opened: OpenDevice) => Promise<Result<T>>): Promise<Result<T>> {
  const opened = measurable(await openDevice(navigator.gpu, navigator.userAgent, CLOCK), compute);
  if (!opened.ok) return opened;
  const result = await unlessLost(opened.value.device, () => work(opened.value));
  return result.ok ? result.value : result;
}

async function readBlock(folder: string, block: BlockName): Promise<Float32Array> {
  return new Float32Array(await (await fetch(`${folder}/${block}`)).arrayBuffer());
}

const page: BenchPage = {
  step: (bench, weights) =>
    onDevice(bench.compute, (opened) =>
      benchStep(
        opened,
        bench,
        weights === null ? null : async (block, [from, to]) => (await readBlock(weights, block)).subarray(from, to),
      ),
    ),
  kernels: () => onDevice('f32', async (opened) => success(await benchKernels(opened))),
  stepKernels: (size, compute) =>
    onDevice(compute, async (opened) => success(await benchStepKernels(opened, size, compute))),
  tune: (sizes, compute) => onDevice(compute, async (opened) => success(await tuneProducts(opened, sizes, compute))),
  openTransport: (initiator) => {
    const { shoalSignal } = globalThis as unknown as { readonly shoalSignal: Signal };
    transport = new TransportEnd(initiator, shoalSignal);
  },
  transportSignalled: async (way, data) => openedTransport().signalled(way, data),
  measureTransport: async () => openedTransport().measure(),
};

Object.assign(globalThis, { shoalBench: page });
