/**
 * Who answers which conversation, piece by piece: conversations that go on with a token each share a piece, prompts are read
 * beside them as far as the piece has rows. Every chain of stages has one piece on its way for each of its stages. A
 * conversation whose keys and values are lost somewhere, or whose chain is gone, is read in again from its first token:
 * whoever reads it sees a pause. Askers get places in turn, however much one of them asks. Tokens pass through here and are
 * kept nowhere else.
 */
import { addToKey, got, type PeerId, total, totalOf } from '../base.ts';
import {
  ANSWER_DRAWS,
  ANSWER_ROWS,
  type AnsweredMessage,
  type AnswerMessage,
  type AnswerPart,
  type UnansweredMessage,
} from '../messages/answerWords.ts';
import { owner, type Plan } from '../plan/plan.ts';

/** Conversations that a chain answers at once, and that wait for a place. */
const MOST_IN_CHAIN = ANSWER_DRAWS;
const MOST_WAITING = 64;
/** Who would wait longer for a place, as far as is known, is told to come back. */
const MOST_WAIT_MS = 30_000;
const LEAST_RETRY_MS = 5_000;
/** How much of a chain's pace its newest piece says. */
const NEWEST_SHARE = 0.2;
/** A piece of which nothing is heard for so long is given up. */
const PIECE_LIMIT_MS = 60_000;
/** A chain without memory to answer, or with somebody who does not want to, is asked again after that. */
const NO_ROOM_MS = 60_000;
const MOST_FAILURES = 5;
/** Where all chains were asked so often and none would, whoever waits is told. */
const MOST_REFUSALS = 2;
export const NOBODY_ANSWERS = 'no donor computes with these weights';

interface TokenRequest {
  /** Who asks: a key, an address. */
  readonly from: string;
  readonly ids: readonly number[];
  readonly mostTokens: number;
  readonly temperature: number;
  readonly topP: number;
  /** Below 2^32. */
  readonly seed: number;
}

/** How many steps' updates stood in the values that answered, fewest and most, and how many donors did. */
interface AnsweredBy {
  readonly fromStep: number;
  readonly toStep: number;
  readonly donors: number;
}

/** What whoever asks may expect, as far as is known. busy: too many wait, or too long. none: no chain answers. */
type Room =
  | { readonly is: 'free'; readonly firstTokenMs: number | null; readonly tokenMs: number | null }
  | { readonly is: 'busy'; readonly retryMs: number }
  | { readonly is: 'none' };

interface Asker {
  token(token: number, by: AnsweredBy): void;
  /** After the last token; a reason where it was not all that was asked for. */
  ended(reason: string | null): void;
}

interface Conversation {
  readonly id: number;
  readonly question: TokenRequest;
  readonly asker: Asker;
  /** Prompt and answer. */
  readonly ids: number[];
  /** Of `ids`, by all stages of its chain. */
  read: number;
  chain: Chain | null;
  piece: number | null;
  failures: number;
  steps: readonly [from: number, to: number] | null;
  readonly donors: Set<PeerId>;
}

interface Chain {
  /** By stage. */
  readonly peers: readonly PeerId[];
  most: number;
  blockedUntilMs: number;
  /** Since it last answered. */
  refusals: number;
  /** From a piece's way out to its last stage's word, of the newest ones; null: there was none. */
  pieceMs: number | null;
  /** Conversations that it had and that are over. */
  ended: number[];
}

interface Piece {
  readonly chain: Chain;
  readonly parts: readonly AnswerPart[];
  readonly sentMs: number;
  /** By stage. */
  readonly answered: Map<number, AnsweredMessage>;
}

export class Answering {
  readonly #send: (to: PeerId, message: AnswerMessage) => void;
  readonly #conversations = new Map<number, Conversation>();
  readonly #pieces = new Map<number, Piece>();
  #epoch: number | null = null;
  #chains: Chain[] = [];
  #newest = 0;

  readonly #vocabulary: number;

  /** `vocabulary`: of the model, which no token of an honest donor is past. */
  constructor(vocabulary: number, send: (to: PeerId, message: AnswerMessage) => void) {
    [this.#vocabulary, this.#send] = [vocabulary, send];
  }

  /** Questions that are being answered, or wait. */
  get open(): number {
    return this.#conversations.size;
  }

  /** Donors in any chain. */
  get donors(): number {
    return new Set(this.#chains.flatMap(({ peers }) => peers)).size;
  }

  /** What a question of so many tokens may expect. */
  room(from: string, rows: number, nowMs: number): Room {
    const chains = this.#chains.filter(({ blockedUntilMs }) => blockedUntilMs <= nowMs);
    const places = totalOf(chains, ({ most }) => most);
    if (places === 0) return { is: 'none' };
    const known = chains.flatMap(({ pieceMs }) => pieceMs ?? []);
    const pieceMs = known.length > 0 ? total(known) / known.length : null;
    const all = [...this.#conversations.values()];
    const rank = all.filter(({ question }) => question.from === from).length;
    const waitMs = this.#passesBefore(rank, places) * (pieceMs ?? 0);
    if (waitMs > MOST_WAIT_MS || all.length >= places + MOST_WAITING)
      return { is: 'busy', retryMs: Math.max(LEAST_RETRY_MS, waitMs - MOST_WAIT_MS) };
    const firstTokenMs = pieceMs && waitMs + Math.ceil(rows / ANSWER_ROWS) * pieceMs;
    return { is: 'free', firstTokenMs, tokenMs: pieceMs };
  }

  /** Pieces that go by, one after another, until there is a place for the question after so many of the same asker. */
  #passesBefore(rank: number, places: number): number {
    const seated = [...this.#conversations.values()].filter(({ chain }) => chain);
    const ends = seated.map(passesOf);
    while (ends.length < places) ends.push(0);
    for (const [before, ownRank] of this.#waiting()) {
      if (ownRank > rank) break;
      const next = Math.min(...ends);
      ends[ends.indexOf(next)] = next + passesOf(before);
    }
    return Math.min(...ends);
  }

  /** Those without a place, whoever has the fewest conversations first, each with how many of its asker come before it. */
  #waiting(): [Conversation, rank: number][] {
    const counts = new Map<string, number>();
    const all = [...this.#conversations.values()].sort((a, b) => Number(!a.chain) - Number(!b.chain) || a.id - b.id);
    const ranked = all.map((conversation): [Conversation, number] => {
      const { from } = conversation.question;
      const rank = counts.get(from) ?? 0;
      counts.set(from, rank + 1);
      return [conversation, rank];
    });
    return ranked.filter(([{ chain }]) => !chain).sort(([, one], [, other]) => one - other);
  }

  /** The plan in force, null: there is none. Of another epoch all conversations begin anew. */
  planned(inForce: { readonly epoch: number; readonly plan: Plan } | null, nowMs: number): void {
    if (inForce?.epoch === this.#epoch) return;
    this.#epoch = inForce?.epoch ?? null;
    this.#chains = inForce ? chainsOf(inForce.plan) : [];
    this.#pieces.clear();
    for (const conversation of this.#conversations.values()) {
      conversation.read = 0;
      conversation.chain = null;
      conversation.piece = null;
    }
    this.#next(nowMs);
  }

  /** Returns what takes the question back. */
  ask(question: TokenRequest, asker: Asker, nowMs: number): () => void {
    const id = ++this.#newest;
    const state = { read: 0, chain: null, piece: null, failures: 0, steps: null, donors: new Set<PeerId>() };
    this.#conversations.set(id, { id, question, asker, ids: [...question.ids], ...state });
    this.#next(nowMs);
    return () => this.#end(id);
  }

  answered(from: PeerId, message: AnsweredMessage, nowMs: number): void {
    const piece = this.#pieceOf(from, message);
    if (!piece) return;
    piece.answered.set(message.stage, message);
    if (piece.answered.size < piece.chain.peers.length) return;
    this.#pieces.delete(message.piece);
    const { chain } = piece;
    chain.refusals = 0;
    const tookMs = nowMs - piece.sentMs;
    chain.pieceMs = chain.pieceMs === null ? tookMs : chain.pieceMs + NEWEST_SHARE * (tookMs - chain.pieceMs);
    const { tokens } = got(piece.answered, piece.chain.peers.length - 1);
    const drawing = piece.parts.filter(({ draw }) => draw !== null);
    for (const part of piece.parts) {
      const conversation = this.#conversations.get(part.conversation);
      if (!conversation) continue;
      conversation.piece = null;
      conversation.failures = 0;
      conversation.read += part.rows;
      this.#learn(conversation, piece);
      const token = part.draw === null ? undefined : tokens[drawing.indexOf(part)];
      if (part.draw !== null) this.#drawn(conversation, token);
    }
    this.#next(nowMs);
  }

  unanswered(from: PeerId, message: UnansweredMessage, nowMs: number): void {
    const piece = this.#pieceOf(from, message);
    if (!piece) return;
    const { chain, parts } = piece;
    const isShut = message.reason === 'unwilling' || (message.reason === 'noRoom' && parts.length === 1);
    if (isShut) {
      chain.blockedUntilMs = nowMs + NO_ROOM_MS;
      chain.refusals++;
    } else if (message.reason === 'noRoom') chain.most = Math.max(1, Math.floor(parts.length / 2));
    this.#giveUp(message.piece, message.reason === 'failed');
    this.#next(nowMs);
  }

  /** Now and then: pieces of which nothing is heard are asked for again, and nobody waits for donors who refuse. */
  look(nowMs: number): void {
    for (const [number, { sentMs }] of this.#pieces) if (nowMs - sentMs > PIECE_LIMIT_MS) this.#giveUp(number, true);
    const isShut = ({ refusals, blockedUntilMs }: Chain): boolean =>
      refusals >= MOST_REFUSALS && blockedUntilMs > nowMs;
    if (this.#chains.length > 0 && this.#chains.every(isShut)) this.close(NOBODY_ANSWERS);
    this.#next(nowMs);
  }

  /** All that is asked ends for this reason. */
  close(reason: string): void {
    for (const { id, asker } of [...this.#conversations.values()]) {
      this.#end(id);
      asker.ended(reason);
    }
  }

  #pieceOf(from: PeerId, { epoch, piece: number, stage }: AnsweredMessage | UnansweredMessage): Piece | null {
    const piece = this.#pieces.get(number);
    return piece && epoch === this.#epoch && piece.chain.peers[stage] === from ? piece : null;
  }

  #learn(conversation: Conversation, { answered, chain }: Piece): void {
    const steps = [...answered.values()].map((message) => message.steps);
    const [from, to] = conversation.steps ?? [Infinity, 0];
    conversation.steps = [Math.min(from, ...steps), Math.max(to, ...steps)];
    for (const peer of chain.peers) conversation.donors.add(peer);
  }

  #drawn(conversation: Conversation, token: number | undefined): void {
    const { id, ids, asker, question, donors } = conversation;
    const [fromStep, toStep] = conversation.steps ?? [0, 0];
    if (token === undefined || token >= this.#vocabulary) {
      this.#end(id);
      asker.ended('a donor drew no token of this model');
      return;
    }
    ids.push(token);
    asker.token(token, { fromStep, toStep, donors: donors.size });
    if (ids.length - question.ids.length < question.mostTokens || !this.#conversations.has(id)) return;
    this.#end(id);
    asker.ended(null);
  }

  #end(id: number): void {
    const conversation = this.#conversations.get(id);
    this.#conversations.delete(id);
    conversation?.chain?.ended.push(id);
  }

  /** Its conversations are read in again. */
  #giveUp(number: number, isFailure: boolean): void {
    const piece = this.#pieces.get(number);
    this.#pieces.delete(number);
    for (const part of piece?.parts ?? []) {
      const conversation = this.#conversations.get(part.conversation);
      if (!conversation || conversation.piece !== number) continue;
      conversation.piece = null;
      conversation.read = 0;
      conversation.chain = null;
      if (isFailure && ++conversation.failures >= MOST_FAILURES) {
        this.#end(conversation.id);
        conversation.asker.ended('the donors could not answer');
      }
    }
  }

  #next(nowMs: number): void {
    if (this.#epoch === null) return;
    this.#seat(nowMs);
    for (const chain of this.#chains) {
      let onTheWay = [...this.#pieces.values()].filter((piece) => piece.chain === chain).length;
      while (onTheWay < chain.peers.length && this.#sendPiece(chain, nowMs)) onTheWay++;
    }
  }

  /** Each conversation without a chain gets the one that has fewest. */
  #seat(nowMs: number): void {
    const counts = new Map(this.#chains.map((chain) => [chain, 0]));
    for (const { chain } of this.#conversations.values()) if (chain) addToKey(counts, chain, 1);
    for (const [conversation] of this.#waiting()) {
      const [free] = [...counts]
        .filter(([chain, count]) => count < Math.min(MOST_IN_CHAIN, chain.most) && chain.blockedUntilMs <= nowMs)
        .sort(([, one], [, other]) => one - other);
      if (!free) return;
      conversation.chain = free[0];
      counts.set(free[0], free[1] + 1);
    }
  }

  #sendPiece(chain: Chain, nowMs: number): boolean {
    const waiting = [...this.#conversations.values()].filter((one) => one.chain === chain && one.piece === null);
    // Those that go on with a token first: each takes one row.
    waiting.sort((a, b) => Number(left(a) > 1) - Number(left(b) > 1));
    const number = this.#newest + 1;
    let rows = ANSWER_ROWS;
    const parts: AnswerPart[] = [];
    for (const conversation of waiting) {
      if (rows === 0 || parts.length === ANSWER_DRAWS) break;
      const part = partOf(conversation, rows);
      conversation.piece = number;
      parts.push(part);
      rows -= part.rows;
    }
    const { epoch, ended } = { epoch: this.#epoch, ended: chain.ended.splice(0, 1_024) };
    if (parts.length === 0 || epoch === null) {
      chain.ended.unshift(...ended);
      return false;
    }
    this.#newest = number;
    this.#pieces.set(number, { chain, parts, sentMs: nowMs, answered: new Map() });
    for (const [stage, peer] of chain.peers.entries()) {
      const own = stage === 0 ? parts : parts.map((part) => ({ ...part, ids: [] }));
      const [from, to] = [chain.peers[stage - 1] ?? null, chain.peers[stage + 1] ?? null];
      this.#send(peer, { type: 'answer', epoch, piece: number, stage, from, to, parts: own, ended });
    }
    return true;
  }
}

/** Pieces that a conversation still takes, each with as many rows of it as can be. */
const passesOf = (conversation: Conversation): number =>
  Math.ceil(left(conversation) / ANSWER_ROWS) -
  1 +
  (conversation.question.mostTokens - (conversation.ids.length - conversation.question.ids.length));

const left = ({ ids, read }: Conversation): number => ids.length - read;

function partOf({ id, ids, read, question }: Conversation, most: number): AnswerPart {
  const rows = Math.min(most, ids.length - read);
  const { temperature, topP, seed } = question;
  const isLast = read + rows === ids.length;
  const draw = isLast ? { temperature, topP, seed, number: ids.length - question.ids.length } : null;
  return { conversation: id, at: read, rows, ids: ids.slice(read, read + rows), draw };
}

/** The ways of the micro-batches through the stages, each once; none where a stage gathers its blocks. */
function chainsOf(plan: Plan): Chain[] {
  if (plan.stages.some(({ gathered }) => gathered)) return [];
  const chains = new Map<string, Chain>();
  for (const { id } of plan.microBatches) {
    const peers = plan.stages.map((_, stage) => owner(plan, stage, id));
    chains.set(peers.join(' '), {
      peers,
      most: MOST_IN_CHAIN,
      blockedUntilMs: 0,
      refusals: 0,
      pieceMs: null,
      ended: [],
    });
  }
  return [...chains.values()];
}
