/**
 * Evidence of audits as donors upload it: all of it that one donor owes at once, of its exact size, held in memory until
 * the audit is over. Where all is here it is held against what both ends had committed to, and what the member computed is done
 * again beside the server. What comes of it is an event. Rules AU in SPEC.md.
 */
import { createHash } from 'node:crypto';
import { at, invariant, type PeerId } from '../../swarm/base.ts';
import type { CoordinatorEvent } from '../../swarm/coordinator/events.ts';
import type { DecisionEffect } from '../../swarm/decisions/events.ts';
import type { Model } from '../../swarm/model/model.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { evidenceBytes, evidenceOf } from '../../swarm/ways/evidence.ts';
import { UploadError } from '../donors/uploadCheck.ts';
import type { BlobStore } from '../files/blobs.ts';
import { messageOf } from '../files/errorWords.ts';
import type { RunDocument } from '../store/runDocument.ts';
import { type AskedAudit, type AuditTask, auditTask, type Collected } from './auditTask.ts';
import { AuditThread } from './auditThread.ts';

type Answer = Extract<CoordinatorEvent, { type: 'evidenceIn' | 'audited' }>;

export interface EvidenceHost {
  readonly document: RunDocument;
  readonly model: Model;
  readonly blobs: Pick<BlobStore, 'read' | 'readRange'>;
  planOf(epoch: number): Plan | null;
  /** Audits that are under way. */
  isWanted(audit: number): boolean;
  answer(event: Answer): void;
}

const DIGEST_BYTES = 16;
const digestOf = (body: Buffer): string =>
  createHash('sha256').update(body).digest().subarray(0, DIGEST_BYTES).toString('base64url');

export class Evidence {
  readonly #host: EvidenceHost;
  readonly #thread = new AuditThread();
  readonly #collected = new Map<number, Collected>();

  constructor(host: EvidenceHost) {
    this.#host = host;
  }

  effect(effect: DecisionEffect): void {
    if (effect.type === 'audit') this.#ask(effect);
  }

  close(): void {
    this.#thread.close();
  }

  /** Its evidence may come from now on. */
  #ask(asked: AskedAudit): void {
    for (const audit of this.#collected.keys()) if (!this.#host.isWanted(audit)) this.#collected.delete(audit);
    const plan = this.#host.planOf(asked.epoch);
    if (plan === null) return; // the coordinator waits for it in vain, and gives it up
    const pieces = evidenceOf(this.#host.model, plan, this.#size, asked);
    this.#collected.set(asked.audit, { asked, plan, pieces, bodies: pieces.map(() => null) });
  }

  get #size() {
    const { train, precision } = this.#host.document.file;
    return { sequence: train.sequenceLength, wire: precision.wire };
  }

  /** All that a donor owes. Answers with the SHA-256 of what came; throws an `UploadError` where nobody waits for it from this donor. */
  async take(peer: PeerId, audit: number, body: AsyncIterable<Uint8Array>): Promise<string> {
    const found = this.#collected.get(audit);
    if (!found || !this.#host.isWanted(audit)) throw new UploadError(410, 'that audit is over');
    const own = found.pieces.filter(({ from }) => from === peer);
    if (own.length === 0) throw new UploadError(403, 'no evidence was asked of this donor');
    const bytes = await whole(body, evidenceBytes(own));
    this.#came(found, peer, bytes);
    return createHash('sha256').update(bytes).digest('hex');
  }

  #came({ asked, pieces, bodies, ...found }: Collected, peer: PeerId, bytes: Buffer): void {
    let done = 0;
    for (const [place, piece] of pieces.entries()) {
      if (piece.from !== peer) continue;
      if (bodies[place]) return; // it came before
      const end = done + evidenceBytes([piece]);
      bodies[place] = bytes.subarray(done, end);
      done = end;
    }
    this.#host.answer({ type: 'evidenceIn', audit: asked.audit, peer });
    if (bodies.includes(null)) return;
    this.#collected.delete(asked.audit);
    void this.#judge({ asked, pieces, bodies, ...found }).then((judged) =>
      this.#host.answer({ type: 'audited', audit: asked.audit, found: judged }),
    );
  }

  async #judge(found: Collected): Promise<Extract<Answer, { type: 'audited' }>['found']> {
    const { asked, pieces, bodies } = found;
    const broken = pieces.findIndex((_, place) => {
      const digest = asked.digests[place] ?? null;
      return digest !== null && digestOf(at(bodies, place) ?? Buffer.alloc(0)) !== digest;
    });
    if (broken >= 0) return { result: 'broken', peer: at(pieces, broken).from };
    const disputed = disputedBy(found);
    if (disputed !== null)
      return { result: 'void', reason: `${disputed} and it say different values of what it computed with` };
    try {
      const task: AuditTask = await auditTask(found, this.#host);
      const { agrees, worst, evidence } = await this.#thread.check(task);
      if (agrees) return { result: 'agrees' };
      invariant(worst, 'what differs is one of the tensors');
      return { result: 'differs', microBatch: worst.microBatch, direction: worst.direction, evidence };
    } catch (error) {
      return { result: 'void', reason: messageOf(error) };
    }
  }
}

/** A primary whose word on values is not the member's own; null: there is none. */
function disputedBy({ asked, pieces, bodies }: Collected): PeerId | null {
  const values = pieces.flatMap(({ from, tensor }, place) =>
    tensor.kind === 'values' ? { from, name: `${tensor.index} ${tensor.range}`, body: at(bodies, place) } : [],
  );
  const own = new Map(values.flatMap(({ from, name, body }) => (from === asked.peer ? [[name, body] as const] : [])));
  return values.find(({ name, body }) => body && !own.get(name)?.equals(body))?.from ?? null;
}

async function whole(body: AsyncIterable<Uint8Array>, sizeBytes: number): Promise<Buffer> {
  const bytes = Buffer.alloc(sizeBytes);
  let here = 0;
  try {
    for await (const chunk of body) {
      if (here + chunk.length > sizeBytes) throw new UploadError(413, `a tensor of ${sizeBytes} bytes was asked for`);
      bytes.set(chunk, here);
      here += chunk.length;
    }
  } catch (error) {
    throw error instanceof UploadError ? error : new UploadError(400, 'the upload was cut off');
  }
  if (here < sizeBytes) throw new UploadError(400, `the upload ended early: ${sizeBytes} bytes were asked for`);
  return bytes;
}
