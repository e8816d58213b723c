/**
 * The weights that stand beside an adapter: their pieces are fetched from the server by hash, compared with it, and kept by
 * the browser for the next time, where it keeps anything. A plan's are fetched while the one before trains on; when its
 * stages are made they are read from there, piece by piece, so that never more than a few are in memory.
 */
import { at, got, invariant, overlap, type PeerId, type Range } from '../../../swarm/base.ts';
import { type BlockName, type Model, standingBlock, standingOfStage } from '../../../swarm/model/model.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import { type BaseBlock, decodePiece, pieceRanges } from '../../../swarm/run/basePieces.ts';
import type { BaseEncoding } from '../../../swarm/run/runFile.ts';

/** What a browser keeps of bases, by the SHA-256 of the bytes. It may forget any of it, or be altered by others. */
export interface PieceStore {
  get(hash: string): Promise<ArrayBuffer | null>;
  /** `wanted`: all pieces of the run at hand, which do not make way for one another. */
  put(hash: string, bytes: ArrayBuffer, wanted: ReadonlySet<string>): Promise<void>;
}

/** For browsers that keep nothing. */
export const NO_STORE: PieceStore = { get: async () => null, put: async () => undefined };

/** Of a browser's six connections to one server; each holds 16 MiB at most. */
const AT_ONCE = 3;

interface Piece {
  readonly hash: string;
  /** Elements of its block. */
  readonly range: Range;
}

interface BaseOf {
  readonly model: Model;
  readonly encoding: BaseEncoding;
  readonly base: readonly BaseBlock[];
  readonly fetchPiece: (hash: string) => Promise<ArrayBuffer>;
  readonly store: PieceStore;
}

export class StandingBase {
  readonly #of: BaseOf;
  readonly #wanted: ReadonlySet<string>;
  readonly #coming = new Map<string, Promise<ArrayBuffer>>();
  readonly #waiting: (() => void)[] = [];
  #fetching = 0;

  constructor(of: BaseOf) {
    this.#of = of;
    this.#wanted = new Set(of.base.flatMap(({ pieces }) => pieces));
  }

  /** Until the browser has what this peer's stages of the plan read, or none of it where it keeps nothing. */
  async warm(plan: Plan, peer: PeerId): Promise<void> {
    const { model, store } = this.#of;
    if (store === NO_STORE) return;
    const uses = plan.stages
      .filter(({ members }) => members.some((member) => member.peer === peer))
      .flatMap(({ layers }) => standingOfStage(model, layers));
    const pieces = uses.flatMap(({ block, ranges }) => ranges.flatMap((range) => this.#piecesOf(block, range)));
    const hashes = new Set(pieces.map(({ hash }) => hash));
    await Promise.all(Array.from(hashes, (hash) => this.#piece(hash)));
  }

  /** Elements of a standing block, handed over in parts as they come. */
  async read(
    block: BlockName,
    range: Range,
    take: (part: Range, values: Float32Array<ArrayBuffer>) => void,
  ): Promise<void> {
    const { model, encoding } = this.#of;
    const reads = this.#piecesOf(block, range).map(async (piece) => {
      const bytes = await this.#piece(piece.hash);
      const values = decodePiece(standingBlock(model, block), piece.range, encoding, bytes);
      const part = overlap(range, piece.range);
      invariant(part, 'only pieces that are asked for are read');
      take(part, values.subarray(part[0] - piece.range[0], part[1] - piece.range[0]));
    });
    await Promise.all(reads);
  }

  #piecesOf(block: BlockName, range: Range): Piece[] {
    const { model, base } = this.#of;
    const listed = base.find((one) => one.block === block);
    invariant(listed, `the run lists the base of ${block}`);
    return pieceRanges(standingBlock(model, block)).flatMap((own, index) =>
      overlap(own, range) ? [{ hash: at(listed.pieces, index), range: own }] : [],
    );
  }

  /** Whoever asks for one that is on its way gets the same. */
  #piece(hash: string): Promise<ArrayBuffer> {
    const known = this.#coming.get(hash);
    if (known) return known;
    const coming = this.#turn()
      .then(() => this.#stored(hash))
      .finally(() => {
        this.#coming.delete(hash);
        this.#fetching--;
        this.#waiting.shift()?.();
      });
    this.#coming.set(hash, coming);
    return got(this.#coming, hash);
  }

  async #turn(): Promise<void> {
    while (this.#fetching >= AT_ONCE) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#fetching++;
  }

  async #stored(hash: string): Promise<ArrayBuffer> {
    const { store, fetchPiece } = this.#of;
    const kept = await store.get(hash);
    if (kept !== null && (await sha256(kept)) === hash) return kept;
    const bytes = await fetchPiece(hash);
    if ((await sha256(bytes)) !== hash) throw new Error(`a piece of the base came with other bytes than ${hash} says`);
    await store.put(hash, bytes, this.#wanted);
    return bytes;
  }
}

async function sha256(bytes: ArrayBuffer): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
