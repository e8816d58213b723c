/**
 * A hook for rehearsals of faults: what a donor that lies does to its own tensors. Only the donors that a server opened itself
 * ever have one, put into their worker from outside (signaling-server/headless/tamper.ts), as anyone could do who opens a
 * browser's tools. In every other tab there is none.
 */
import { got } from '../../../swarm/base.ts';
import type { TensorKey } from '../../../swarm/messages/frame.ts';
import type { ReportMessage } from '../../../swarm/messages/messages.ts';
import { pieces } from '../../../swarm/model/layout.ts';
import { blockTensor } from '../../../swarm/ways/tensors.ts';
import type { Role } from './role.ts';

interface Tampering {
  /** Changes what this donor computed, before anything is made of it: a tensor of the stream, or gradient sums as a slice. */
  made(key: TensorKey, values: Float32Array): void;
  /** What goes out in place of a tensor that this donor takes for sound. */
  leaves(key: TensorKey, values: Float32Array): Float32Array;
  /** What it reports in place of this. */
  reports(report: ReportMessage): ReportMessage;
}

export const tampering = (): Tampering | undefined =>
  (globalThis as { readonly shoalTampering?: Tampering }).shoalTampering;

/** A stage's gradient sums, when all of them stand: in place on the GPU, for this donor's own shards read them there. */
export async function tamperWithSums({ model, epoch, uses, stages }: Role, index: number, step: number): Promise<void> {
  const [tamper, stage] = [tampering(), got(stages, index)];
  if (!tamper || stage.units) return;
  for (const { block, ranges } of got(uses, index)) {
    for (const range of ranges.flatMap(pieces)) {
      const sums = await (await stage.readGradient(block, [range])).take((values) => values.slice());
      tamper.made({ ...blockTensor(model, 'slice', index, { block, range }), epoch, step }, sums);
      stage.writeGradient(block, range, sums);
    }
  }
}
