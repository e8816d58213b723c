/** What groups of donors are sought for, and the chance that one lives to its meeting. */
import { at } from '../base.ts';
import type { MeetingSettings } from '../islands/outer.ts';
import { OWNERS, publishedBytes, saidBytes } from '../islands/ownerShares.ts';
import { blocksOfStage, type Model, parameters } from '../model/model.ts';
import type { ClusterCosts, PlannedPeer } from './clusterCosts.ts';

/** How long a donor stays where nobody says. */
export const SESSION_SECONDS = 3600;
/** A donor alone, or of lanes, may take so much of a round to receive its part of a meeting; whom it takes longer begins the next one late. */
export const MEETING_PART = 1 / 5;
/** What is waited for at a meeting is taken to be so much of a round's steps while groups are sought. */
const WAITED_PART = 1 / 12;
/** But no less than what the donor in the middle takes for so many layers. */
const WAITED_LAYERS = 2;
/** Stages of a pipeline: with more of them one of its donors is always about to leave. */
export const MOST_STAGES = 16;

/** A donor's part of a meeting. */
interface Meets {
  /** Bytes that it sends, and receives, an element of its stages. */
  readonly sent: number;
  readonly received: number;
  /** So long is waited for it. */
  readonly waitedSeconds: number;
  /** So much longer is a meeting for each group more: owners publish to all. */
  readonly groupSeconds: number;
}

export interface GroupsAsked {
  readonly costs: ClusterCosts;
  /** A round's steps. */
  readonly roundSeconds: number;
  readonly meets: Meets;
  /** What a group is worth goes by its tokens times the chance that it lives to its meeting, to this power: 0 is tokens alone. */
  readonly caution: number;
  /** May pipelines have the overlapping warm-up? It takes memory. */
  readonly overlaps: boolean;
}

/** Of leaving, a second, for a donor that stays so long in the mean; 0: nobody says. */
export const riskOf = (sessionSeconds: number): number => 1 / (sessionSeconds || SESSION_SECONDS);

/** The chance that nobody of them has left by then. */
export const chanceOfStaying = (sessions: readonly number[], seconds: number): number =>
  Math.exp(-seconds * sessions.reduce((risk, session) => risk + riskOf(session), 0));

export const chanceOfAll = ({ peers }: ClusterCosts, places: readonly number[], seconds: number): number =>
  chanceOfStaying(
    places.map((place) => at(peers, place).sessionSeconds),
    seconds,
  );

/** By which a group's tokens count. */
export const weightOf = ({ costs, roundSeconds, caution }: GroupsAsked, places: readonly number[]): number =>
  caution === 0 ? 1 : chanceOfAll(costs, places, caution * roundSeconds);

/** `others`: groups that a donor sends its packets to, and whose packets it gets; null: to owners, who publish. */
export function meetsOf(
  { model, peers }: ClusterCosts,
  settings: Pick<MeetingSettings, 'exchange' | 'publish'>,
  roundSeconds: number,
  others: number | null,
): Meets {
  const layer = layerElements(model);
  const sent = ((others ?? OWNERS) * saidBytes(settings, layer)) / layer;
  const received = (others === null ? publishedBytes(settings, layer) : others * saidBytes(settings, layer)) / layer;
  const times = peers.map(
    ({ upload, download }) => WAITED_LAYERS * layer * Math.max(sent / upload, received / download),
  );
  const middle = times.sort((a, b) => a - b)[times.length >> 1] ?? 0;
  const waitedSeconds = Math.max(roundSeconds * WAITED_PART, middle);
  const uploads = peers.reduce((sum, { upload }) => sum + upload, 0);
  const groupSeconds = others === null ? publishedBytes(settings, parameters(model)) / uploads : 0;
  return { sent, received, waitedSeconds, groupSeconds };
}

/** What a donor's line carries both ways. */
export const lineOf = ({ upload, download }: PlannedPeer): number => Math.min(upload, download);

/** Elements of a layer, and those that a stage of layers computes with. */
const layerElements = ({ blocks }: Model): number => blocks.find(({ name }) => name === 'layer.0')?.elements ?? 1;
export const elementsOf = ({ model }: ClusterCosts, layers: readonly [number, number]): number =>
  blocksOfStage(model, layers).reduce((sum, { ranges }) => ranges.reduce((own, [from, to]) => own + to - from, sum), 0);
