/** A benchmark on a GPU that went away ends with a sentence: what a lost device answers at once would be its best times. */
import { queueDone } from '../../../shaders/kernel/queueWait.ts';
import { type Result, refusal, success } from '../../../swarm/base.ts';

export function unlessLost<T>(device: GPUDevice, work: () => Promise<T>): Promise<Result<T>> {
  const lost = device.lost.then(({ message }) => refusal(`the GPU was lost while it was measured: ${message}`));
  const measured = async (): Promise<Result<T>> => {
    try {
      return success(await work());
    } catch (cause) {
      await queueDone(device).catch(() => {}); // by then it is known whether a loss was the cause
      throw cause;
    }
  };
  return Promise.race([lost, measured()]);
}
