/** What groups of donors are sought for, and the chance that one lives to its meeting. */
import { at } from '../base.ts';
import type { ClusterCosts } from './clusterCosts.ts';

/** How long a donor stays where nobody says. */
export const SESSION_SECONDS = 3600;
/** A donor's part of a meeting may take so much of a round; whom it takes longer begins the next one late. */
export const MEETING_PART = 1 / 5;
/** Stages of a pipeline: with more of them one of its donors is always about to leave. */
export const MOST_STAGES = 16;

export interface GroupsAsked {
  readonly costs: ClusterCosts;
  /** A round's steps. */
  readonly roundSeconds: number;
  /** Bytes that a donor receives at a meeting, an element of its stages. */
  readonly publishedBytes: number;
  /** What a group is worth goes by its tokens times the chance that it lives to its meeting, to this power: 0 is tokens alone. */
  readonly caution: number;
  /** May pipelines have the overlapping warm-up? It takes memory. */
  readonly overlaps: boolean;
}

/** The chance that nobody of them has left by then. */
export function chanceOfAll(costs: ClusterCosts, places: readonly number[], seconds: number): number {
  const risk = places.reduce((sum, place) => sum + 1 / (at(costs.peers, place).sessionSeconds || SESSION_SECONDS), 0);
  return Math.exp(-risk * seconds);
}

/** By which a group's tokens count. */
export const weightOf = ({ costs, roundSeconds, caution }: GroupsAsked, places: readonly number[]): number =>
  caution === 0 ? 1 : chanceOfAll(costs, places, caution * roundSeconds);
