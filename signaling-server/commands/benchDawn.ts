/** The benchmarks' device where no browser is wanted: Dawn for Node. */
import { type DawnDriver, dawnDevice } from '../../shaders/dawn.ts';
import { type Result, success } from '../../swarm/base.ts';
import type { OpenDevice } from '../../web/src/gpu/device.ts';

export async function openDawn(driver: DawnDriver): Promise<Result<OpenDevice>> {
  const opened = await dawnDevice(driver);
  if (!opened.ok) return opened;
  const { device, family, description } = opened.value;
  return success({
    device,
    family,
    profile: {
      vendor: '',
      architecture: description,
      description,
      software: driver === 'software',
      browser: `Node ${process.version}, Dawn`,
    },
  });
}
