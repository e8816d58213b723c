/** One value of `/metrics`, for tests: by its name with its labels, as it is printed there; 0 where it is not there. */
import type { Server } from '../server.ts';

export async function counted({ run }: Server, sample: string): Promise<number> {
  const text = await run.counts.text(run.snapshot());
  const line = text.split('\n').find((each) => each.startsWith(`${sample} `));
  return Number(line?.slice(sample.length) ?? 0);
}
