/** How questions have been answered in the newest minutes, for whoever looks at the dashboard; and counted for good, for Prometheus. */
import type { AnswerNumbers } from '../../swarm/messages/apiKeys.ts';
import type { RunCounts } from '../monitoring/metrics.ts';

const WINDOW_MS = 300_000;
const MOST_KEPT = 100_000;

interface Entry {
  readonly atMs: number;
  readonly value: number;
}

/** Numbers with their times, those of the window alone. */
class Newest {
  #entries: Entry[] = [];

  add(atMs: number, value: number): void {
    this.#entries.push({ atMs, value });
    if (this.#entries.length > MOST_KEPT) this.#entries = this.#entries.slice(-MOST_KEPT / 2);
  }

  of(nowMs: number): number[] {
    this.#entries = this.#entries.filter(({ atMs }) => atMs > nowMs - WINDOW_MS);
    return this.#entries.map(({ value }) => value);
  }
}

export class AnswerFigures {
  readonly #counts: Pick<RunCounts, 'tokenAnswered' | 'sentAway'>;
  readonly #nowMs: () => number;
  readonly #sinceMs: number;
  readonly #tokens = new Newest();
  readonly #firstTokens = new Newest();
  readonly #sentAway = new Newest();
  /** Of pieces: the seconds that a donor's GPU took, as a share of all donors that answer. */
  readonly #work = new Newest();

  constructor(counts: Pick<RunCounts, 'tokenAnswered' | 'sentAway'>, nowMs: () => number) {
    this.#counts = counts;
    this.#nowMs = nowMs;
    this.#sinceMs = nowMs();
  }

  /** `firstSeconds`: it is the first one of an answer, so long after the question. */
  tokenAnswered(by: 'donors' | 'server', firstSeconds: number | null): void {
    this.#counts.tokenAnswered(by, firstSeconds);
    this.#tokens.add(this.#nowMs(), 1);
    if (firstSeconds !== null) this.#firstTokens.add(this.#nowMs(), firstSeconds);
  }

  sentAway(): void {
    this.#counts.sentAway();
    this.#sentAway.add(this.#nowMs(), 1);
  }

  /** One of so many donors that answer did its part of a piece. */
  worked(seconds: number, donors: number): void {
    this.#work.add(this.#nowMs(), seconds / Math.max(1, donors));
  }

  get numbers(): Omit<AnswerNumbers, 'open'> {
    const nowMs = this.#nowMs();
    const seconds = Math.max(1, Math.min(WINDOW_MS, nowMs - this.#sinceMs) / 1_000);
    const firsts = this.#firstTokens.of(nowMs).sort((a, b) => a - b);
    const place = (share: number): number | null => firsts[Math.ceil(share * firsts.length) - 1] ?? null;
    return {
      tokensPerSecond: this.#tokens.of(nowMs).length / seconds,
      firstTokenSeconds: { median: place(0.5), most: place(0.95) },
      sentAway: this.#sentAway.of(nowMs).length,
      donorShare: this.#work.of(nowMs).reduce((sum, share) => sum + share, 0) / seconds,
    };
  }
}
