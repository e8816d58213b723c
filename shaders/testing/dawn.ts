/**
 * A GPUDevice in Node, from Dawn (`webgpu` on npm), for kernel tests and benchmarks without a browser.
 *
 * The rule: the Vulkan loader reads VK_ICD_FILENAMES once, when the first adapter is asked for, so the driver is chosen
 * here before that and stays for the life of the process. In vitest call `dawnDevice` in `beforeAll` under
 * `pool: 'forks'` (requestAdapter inside a test of a worker thread crashes: dawn-gpu/node-webgpu#13). A script of its
 * own ends with `process.exit`, since Dawn's threads keep Node alive (crbug.com/387965810).
 */
import { existsSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { requiredLimits, WANTED_FEATURES } from '../deviceLimits.ts';
import { adapterFamily, type GpuClass, gpuClassOf } from '../family/adapterFamily.ts';
import { type MatrixUnit, matrixUnits } from '../family/matrixUnit.ts';
import { allowImmediates, type DimsPlace } from '../kernel/dims.ts';
import type { AdapterFamily } from '../kernel/kernel.ts';

export interface DawnDevice {
  readonly device: GPUDevice;
  readonly family: AdapterFamily;
  readonly units: readonly MatrixUnit[];
  readonly gpuClass: GpuClass;
  readonly info: GPUAdapterInfo;
  /** For tables and titles: `swiftshader (SwiftShader driver 5.0.0)`. */
  readonly description: string;
}

/**
 * `software`: SwiftShader, else llvmpipe. `halves`: llvmpipe, which has shader-f16 since Mesa 25, else SwiftShader.
 * `system`: whatever Vulkan finds by itself, a real GPU where there is one.
 */
export type DawnDriver = 'software' | 'halves' | 'system';

/** Matrix units are offered only with the first; without the second, timestamps are multiples of 65,536 ns. */
const TOGGLES = ['enable-dawn-features=allow_unsafe_apis', 'disable-dawn-features=timestamp_quantization'];

function chromiumFolders(): string[] {
  const named = process.env.SHOAL_CHROMIUM;
  const folders = ['/usr/lib/chromium', '/usr/lib/chromium-browser', '/opt/google/chrome'];
  return named && existsSync(named) ? [dirname(realpathSync(named)), ...folders] : folders;
}

export function softwareDriverFile(driver: Exclude<DawnDriver, 'system'> = 'software'): string | undefined {
  const swiftshader = chromiumFolders().map((folder) => join(folder, 'vk_swiftshader_icd.json'));
  const llvmpipe = ['lvp_icd.x86_64.json', 'lvp_icd.aarch64.json', 'lvp_icd.json'].map((file) =>
    join('/usr/share/vulkan/icd.d', file),
  );
  const files = driver === 'halves' ? [...llvmpipe, ...swiftshader] : [...swiftshader, ...llvmpipe];
  return files.find((file) => existsSync(file));
}

/** Where the Vulkan loader looks by itself. */
const DRIVER_FOLDERS = ['/etc/vulkan/icd.d', '/usr/share/vulkan/icd.d', '/usr/local/share/vulkan/icd.d'];
/** NVIDIA's driver, as containers have it: without the file that names it. */
const NVIDIA_LIBRARIES = [
  '/usr/lib/x86_64-linux-gnu',
  '/usr/lib/aarch64-linux-gnu',
  '/usr/lib64',
  '/usr/local/nvidia/lib64',
].map((folder) => join(folder, 'libGLX_nvidia.so.0'));

/** A file for the driver that is there and that nothing names; undefined: the loader finds what there is. */
function systemDriverFile(): string | undefined {
  const isNamed = DRIVER_FOLDERS.some(
    (folder) => existsSync(folder) && readdirSync(folder).some((file) => /nvidia/.test(file)),
  );
  const library = NVIDIA_LIBRARIES.find((file) => existsSync(file));
  if (isNamed || library === undefined) return undefined;
  const file = join(mkdtempSync(join(tmpdir(), 'shoal-vulkan-')), 'nvidia_icd.json');
  writeFileSync(
    file,
    JSON.stringify({ file_format_version: '1.0.0', ICD: { library_path: library, api_version: '1.3.0' } }),
  );
  process.once('exit', () => rmSync(dirname(file), { recursive: true, force: true }));
  return file;
}

/** What its machine code was built against decides where it loads. */
function glibc(): string {
  const { header } = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  return header?.glibcVersionRuntime ? ` (this machine has glibc ${header.glibcVersionRuntime})` : '';
}

// Dawn's instance dies with its JavaScript object, taking every adapter and device along: keep it for good.
let instance: Promise<Result<GPU>> | undefined;
let nullInstance: Promise<Result<GPU>> | undefined;

async function loadDawn(driver: DawnDriver, features: readonly string[]): Promise<Result<GPU>> {
  const chosenByCaller = process.env.VK_ICD_FILENAMES ?? process.env.VK_DRIVER_FILES;
  if (driver !== 'system' && chosenByCaller === undefined) {
    const file = softwareDriverFile(driver);
    if (file === undefined) return refusal('there is no SwiftShader (Debian package chromium) and no llvmpipe');
    process.env.VK_ICD_FILENAMES = file;
  }
  if (driver === 'system' && chosenByCaller === undefined) {
    const file = systemDriverFile();
    if (file !== undefined) process.env.VK_ICD_FILENAMES = file;
  }
  const toggles = TOGGLES.map((toggle) =>
    toggle.startsWith('enable-') && features.length > 0 ? `${toggle},${features.join(',')}` : toggle,
  );
  return createDawn(driver === 'system' ? toggles : ['backend=vulkan', ...toggles]);
}

async function createDawn(options: readonly string[]): Promise<Result<GPU>> {
  try {
    const { create, globals } = await import('webgpu');
    Object.assign(globalThis, globals); // GPUBufferUsage and its like
    return success(create([...options]));
  } catch (error) {
    return refusal(`Dawn for Node does not load: ${error instanceof Error ? error.message : String(error)}${glibc()}`);
  }
}

/** Dawn for Node waits for a pipeline by asking again and again, which takes as much of the CPU as the compiler does. */
function compileAtOnce(device: GPUDevice): void {
  device.createComputePipelineAsync = async (descriptor) => {
    device.pushErrorScope('validation');
    const pipeline = device.createComputePipeline(descriptor);
    const error = await device.popErrorScope();
    if (error) throw new Error(error.message);
    return pipeline;
  };
}

/**
 * A new device of the process's adapter, with subgroups, timestamps, f16 and matrix units where there are any. `features` of
 * Dawn are the first caller's. `guaranteed`: with no more than WebGPU's word for every limit, as a phone has them, and
 * without immediates.
 */
export async function dawnDevice(
  driver: DawnDriver = 'software',
  features: readonly string[] = [],
  limited: 'most' | 'guaranteed' = 'most',
): Promise<Result<DawnDevice>> {
  instance ??= loadDawn(driver, features);
  const gpu = await instance;
  if (!gpu.ok) return gpu;
  const adapter = await gpu.value.requestAdapter({ powerPreference: 'high-performance' });
  if (!adapter) {
    return refusal(
      'Vulkan finds no adapter: it takes the GPU’s driver, whose file lies in /usr/share/vulkan/icd.d or /etc/vulkan/icd.d (or VK_ICD_FILENAMES names it), and the loader libvulkan.so.1, from Debian’s libvulkan1 or, with LD_LIBRARY_PATH, Chromium’s own folder; NVIDIA’s driver loads libglvnd’s libraries too (Debian’s libegl1 and libgl1)',
    );
  }
  const limits = requiredLimits(adapter.limits);
  if (!limits.ok) return limits;
  const device = await adapter.requestDevice({
    label: 'Dawn for Node',
    requiredFeatures: WANTED_FEATURES.filter((name) => adapter.features.has(name)),
    requiredLimits: limited === 'most' ? limits.value : {},
  });
  if (limited === 'most') allowImmediates(device, gpu.value);
  if (driver === 'software') compileAtOnce(device);
  const { info } = adapter;
  return success({
    device,
    info,
    family: adapterFamily(info, device.features),
    units: matrixUnits(info, device.features),
    gpuClass: gpuClassOf(info),
    description: `${info.architecture || info.vendor || 'unnamed adapter'} (${info.description})`,
  });
}

/** A device that takes what WGSL and WebGPU allow, with every feature, and runs nothing. */
export async function nullDevice(place: DimsPlace = 'immediate'): Promise<Result<GPUDevice>> {
  nullInstance ??= createDawn(['backend=null', ...TOGGLES]);
  const gpu = await nullInstance;
  if (!gpu.ok) return gpu;
  const adapter = await gpu.value.requestAdapter();
  if (!adapter) return refusal('Dawn has no null adapter');
  const requiredFeatures = WANTED_FEATURES.filter((name) => adapter.features.has(name));
  const device = await adapter.requestDevice({ label: 'Dawn, null', requiredFeatures });
  if (place === 'immediate') allowImmediates(device, gpu.value);
  return success(device);
}
