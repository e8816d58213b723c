/** Where a donor's tab stands with the swarm. A phase holds what it alone has; what outlives one is in state.ts. */
import type { SpareReason } from '../../../swarm/messages/messages.ts';
import type { RefusalReason } from '../../../swarm/messages/refusals.ts';

export type FailureReason =
  | 'insecure'
  | 'noWebGpu'
  | 'noWebRtc'
  | 'noAdapter'
  | 'deviceLost'
  | 'wrongGpu'
  | 'internal'
  | RefusalReason;

export type DonorPhase =
  | { readonly kind: 'idle' }
  | { readonly kind: 'starting'; readonly waitsFor: 'gpu' | 'server' | 'check' }
  /** Known to the server, not computing yet: waiting for a plan, or getting ready for one. */
  | { readonly kind: 'joined' }
  | { readonly kind: 'computing' }
  /** `why`: as the server said it; undefined: it was not said yet. */
  | {
      readonly kind: 'spare';
      readonly finished: boolean;
      readonly why: SpareReason | undefined;
      /** In the queue. */
      readonly place?: number | undefined;
    }
  /** connected: the server keeps this tab in its books; else everything here has ended until it is resumed. */
  | { readonly kind: 'paused'; readonly connected: boolean }
  /** handedOver: the others took over what this tab kept before it left. */
  | { readonly kind: 'left'; readonly handedOver: boolean; readonly by?: 'operator' }
  /** The server refused this tab for now; it asks again by itself. Nothing runs here until then. */
  | {
      readonly kind: 'postponed';
      readonly reason: RefusalReason;
      readonly detail: string;
      readonly secondsLeft: number;
    }
  | { readonly kind: 'failed'; readonly reason: FailureReason; readonly detail: string }
  | { readonly kind: 'reconnecting'; readonly reason: 'server' | 'deviceLost' | 'internal' };

type AtPhase = { readonly phase: DonorPhase };

/** Whether a click on the button may start this tab. */
export function mayDonate({ phase }: AtPhase): boolean {
  return phase.kind === 'idle' || phase.kind === 'left' || phase.kind === 'failed';
}

/** Whether the server has this tab in its books, so that pause and leave mean something. */
export function isMember({ phase }: AtPhase): boolean {
  return phase.kind === 'paused' ? phase.connected : ['joined', 'computing', 'spare'].includes(phase.kind);
}
