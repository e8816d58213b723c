/** Bytes of the donors that are here: the most that any of their plans predicted, and the most that they reported. */
import type { PeerId } from '../../swarm/base.ts';
import { predictedBytes } from '../../swarm/memory/memory.ts';
import type { AdapterProfile } from '../../swarm/messages/profile.ts';
import type { Model } from '../../swarm/model/model.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { computeOf } from '../../swarm/precision.ts';
import type { RunFile } from '../../swarm/run/runFile.ts';

export interface DonorMemory {
  readonly predictedBytes: number;
  readonly peakBytes: number;
  /** Of main memory, as reported. */
  readonly hostBytes: number;
}

export class DonorMemories {
  readonly #model: Model;
  readonly #file: RunFile;
  readonly #donors = new Map<PeerId, DonorMemory>();

  constructor(model: Model, file: RunFile) {
    this.#model = model;
    this.#file = file;
  }

  /** A donor has what it needs for a plan, so many bytes in all. */
  ready(
    peer: PeerId,
    { halves }: AdapterProfile,
    plan: Plan,
    { memoryBytes, hostBytes = 0 }: { readonly memoryBytes: number; readonly hostBytes?: number },
  ): void {
    const { train, precision } = this.#file;
    const compute = computeOf(precision.compute, halves === true);
    const predicted = predictedBytes(this.#model, plan, peer, train.sequenceLength, precision.wire, compute);
    const before = this.#donors.get(peer);
    this.#donors.set(peer, {
      predictedBytes: Math.max(before?.predictedBytes ?? 0, predicted),
      peakBytes: Math.max(before?.peakBytes ?? 0, memoryBytes),
      hostBytes: Math.max(before?.hostBytes ?? 0, hostBytes),
    });
  }

  of(peer: PeerId): DonorMemory | undefined {
    return this.#donors.get(peer);
  }

  all(): (DonorMemory & { readonly peer: PeerId })[] {
    return [...this.#donors].map(([peer, memory]) => ({ peer, ...memory }));
  }

  gone(peer: PeerId): void {
    this.#donors.delete(peer);
  }
}
