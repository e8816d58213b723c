/** What crosses between all that decides a run and its shell, and what of it each of the two in a group is told. */
import type { GroupsFound, GroupsProblem } from '../autoplan/groupsAnew.ts';
import type { PlanningConfig } from '../autoplan/knownDonors.ts';
import type { PeerProfile } from '../autoplan/peerProfile.ts';
import type { Found, ReplannerEvent } from '../autoplan/replannerState.ts';
import { given, type PeerId, type Result } from '../base.ts';
import type { CoordinatorConfig, CoordinatorEvent, DonorMessage, StartState } from '../coordinator/events.ts';
import type { Limits } from '../limits.ts';
import type { MetMessage, PeerMessage } from '../messages/messages.ts';
import type { AdapterProfile, Profile } from '../messages/profile.ts';
import type { GroupEffect } from './group.ts';

export interface DecisionConfig {
  readonly run: CoordinatorConfig;
  readonly planning: PlanningConfig;
}

export type FaultMessage = Extract<PeerMessage, { type: 'fault' }>;

/** What a donor says that something is decided by. */
export type DecisiveMessage = DonorMessage | MetMessage | Extract<PeerMessage, { type: 'limits' | 'probed' }>;

export type DecisionEvent =
  | Exclude<
      CoordinatorEvent,
      {
        type: 'donorJoined' | 'donorSaid' | 'planned' | 'met' | 'cameOf' | 'allSaved' | 'failedMeeting' | 'groupsEnded';
      }
    >
  /** A donor was admitted: it has its `welcome`, and its GPU passed the check. */
  | {
      readonly type: 'donorJoined';
      readonly peer: PeerId;
      readonly adapter: AdapterProfile;
      readonly limits: Limits;
      /** What its admission measured; null: nothing is known of it. */
      readonly profile: Profile | null;
      /** By which its profile is kept for its next visit, and what the last one left. */
      readonly rememberedAs: string | null;
      readonly remembered: PeerProfile | null;
      /** An opaque name of its network: two donors that have the same one may be one person. */
      readonly address: string;
      /** An opaque name of its line, where that may be others' too: who have the same one are behind one router. */
      readonly line?: string;
      /** This server opened it itself. */
      readonly isOwn: boolean;
      /** The way from this server to it and back; absent or null: not known. */
      readonly roundTripMs?: number | null;
      /** Committed steps that it had a part in before, under this name; absent: none. */
      readonly stepsSeen?: number;
      /** How long it is expected to stay; absent: nothing is known. */
      readonly sessionSeconds?: number;
      /** It proved that it was here before the server began; absent: it did not. */
      readonly wasHere?: true;
    }
  /** `chance`: as in `CoordinatorEvent`. */
  | { readonly type: 'donorSaid'; readonly peer: PeerId; readonly message: DecisiveMessage; readonly chance?: number }
  /** The answer to the effect `search`. */
  | { readonly type: 'searched'; readonly search: number; readonly found: Found }
  /** The answer to the effect `searchGroups`. */
  | { readonly type: 'groupsFound'; readonly search: number; readonly found: Result<GroupsFound> }
  /** The run begins again from what the store knows, with nobody there yet; what is known of donors stays. */
  | { readonly type: 'restarted'; readonly start: StartState };

/** Performed by the shell in order, each done before the next: what was answered is then always stored. */
export type DecisionEffect =
  | GroupEffect
  /** Answered by `groupsFound` with this number. */
  | { readonly type: 'searchGroups'; readonly search: number; readonly problem: GroupsProblem }
  /** All groups have met: what was committed of the round stands, and these bytes belong to its last step. */
  | {
      readonly type: 'storeMeeting';
      readonly committedSteps: number;
      readonly bytesDirect: number;
      readonly bytesRelayed: number;
    }
  /**
   * Of the steps from this count on those of this island never happened, nor what they earned. The others are counted on in
   * their order.
   */
  | { readonly type: 'islandEnded'; readonly island: number; readonly from: number };

/** What changes the state that there is. */
export type ToldEvent = Exclude<DecisionEvent, { type: 'restarted' }>;

export function forReplanner(event: ToldEvent): ReplannerEvent | null {
  switch (event.type) {
    case 'donorJoined': {
      const { adapter, profile } = event;
      return profile && { ...event, profile, hasHalves: adapter.halves === true };
    }
    case 'donorSaid':
    case 'donorGone':
    case 'searched':
    case 'deadlineReached':
      return event;
    default:
      return null;
  }
}

export function forCoordinator(event: ToldEvent): CoordinatorEvent | null {
  switch (event.type) {
    case 'donorJoined': {
      const { type, peer, adapter, limits, address, isOwn, wasHere } = event;
      return {
        type,
        peer,
        adapter,
        address,
        isOwn,
        ...(limits.memoryBytes === null ? {} : { memoryBytes: limits.memoryBytes }),
        ...(limits.hostBytes > 0 && { hostBytes: limits.hostBytes }),
        ...(wasHere && { wasHere }),
      };
    }
    case 'donorSaid': {
      const { type, peer, message, chance } = event;
      return isForOthers(message) ? null : { type, peer, message, ...given({ chance }) };
    }
    case 'searched':
    case 'groupsFound':
      return null;
    default:
      return event;
  }
}

const isForOthers = (message: DecisiveMessage): message is Exclude<DecisiveMessage, DonorMessage> =>
  message.type === 'limits' || message.type === 'probed' || message.type === 'met';
