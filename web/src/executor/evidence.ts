/**
 * What this peer has of the evidence of audits: copied between a step's commit and its update, while nothing has changed yet,
 * and uploaded beside the training, one audit after the other. Rules AU in SPEC.md.
 */
import { at, got, overlap, type Range } from '../../../swarm/base.ts';
import type { ServerMessage } from '../../../swarm/messages/messages.ts';
import type { BlockName } from '../../../swarm/model/model.ts';
import { type EvidencePiece, evidenceBytes, evidenceOf } from '../../../swarm/ways/evidence.ts';
import type { StreamSize } from '../../../swarm/ways/tensors.ts';
import type { Commitments } from './commitments.ts';
import type { Role } from './role.ts';
import type { RunFiles } from './runFiles.ts';
import { readSums, type StepRows } from './slices.ts';

export type AskedEvidence = NonNullable<Extract<ServerMessage, { type: 'committed' }>['evidence']>;

export class EvidenceUploads {
  #uploads: Promise<void> = Promise.resolve();
  #abort = new AbortController();

  /** Resolves when all of it is copied. */
  async take(taken: Taken, asked: AskedEvidence, files: Pick<RunFiles, 'give'>): Promise<void> {
    const { signal } = this.#abort;
    for (const one of asked) {
      const all = await allOf(taken, one).catch(() => null); // the step is committed, and its update comes what may
      this.#uploads = this.#uploads
        .then(async () => {
          if (all !== null && !signal.aborted) await files.give(all, one.audit, signal);
        })
        .catch(() => undefined); // the server misses it at its deadline, or wants it no more
    }
  }

  /** Nobody wants them any more. */
  drop(): void {
    this.#abort.abort(new Error('the run was left'));
    this.#abort = new AbortController();
  }
}

/** A step that is committed, and not applied yet. */
interface Taken {
  readonly role: Role;
  readonly step: number;
  readonly size: StreamSize;
  readonly commitments: Commitments;
  readonly rows: StepRows;
}

/** One after the other, as the server takes them. */
async function allOf(taken: Taken, { stage, peer }: AskedEvidence[number]): Promise<Float32Array<ArrayBuffer>> {
  const { role, size } = taken;
  const own = evidenceOf(role.model, role.plan, size, { stage, peer }).filter(({ from }) => from === role.peer);
  const all = new Float32Array(evidenceBytes(own) / Float32Array.BYTES_PER_ELEMENT);
  let done = 0;
  for (const piece of own) {
    const values = await copyOf(taken, piece);
    all.set(values, done);
    done += values.length;
  }
  return all;
}

async function copyOf(
  { role, step, commitments, rows }: Taken,
  { from, tensor, table }: EvidencePiece,
): Promise<Float32Array<ArrayBuffer>> {
  const { stage, index, range } = tensor;
  const blockName = (): BlockName => at(role.model.blocks, index).name;
  switch (tensor.kind) {
    case 'slice': {
      const part = { range, table: table ?? null };
      const runs = await rows.runsOf(part, role.peer, role.model.width);
      const reading = await readSums(got(role.stages, stage), blockName(), part, runs);
      return reading.take((values) => values.slice());
    }
    case 'values':
      if (isPrimaryOf(role, blockName(), range)) return role.shards.readState(blockName(), range, ['value']);
      return (await got(role.stages, stage).readValues(blockName(), range)).take((values) => values.slice());
    default: {
      const kept = commitments.kept({ ...tensor, epoch: role.epoch, step }, from);
      if (kept === null) throw new Error(`${tensor.kind} ${stage}/${index} is not kept`);
      return kept;
    }
  }
}

const isPrimaryOf = ({ plan, peer }: Role, name: BlockName, range: Range): boolean =>
  plan.state.some(
    ({ block, shards }) => block === name && shards.some((shard) => shard.peer === peer && overlap(shard.range, range)),
  );
