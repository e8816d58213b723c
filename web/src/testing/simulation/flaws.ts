/**
 * Bugs that are planted, to see that the simulation finds them: each a few lines between two parts of the product, which
 * themselves stay as they are. A bug that a simulation does not find here it would not find elsewhere either.
 */
import { seededRandom } from '../../../../swarm/base.ts';
import { FRAME_KINDS, HEADER_BYTES } from '../../../../swarm/messages/frame.ts';
import type { PeerMessage, ServerMessage } from '../../../../swarm/messages/messages.ts';
import type { RehearsedEffect } from '../../../../swarm/testing/decider.ts';
import type { Shards, Stage } from '../../executor/engine.ts';
import type { Engine } from '../../executor/role.ts';

type ScalarsOf = (step: number) => { readonly learningRate: number; readonly clipScale: number };

/** Of one tab: what it hears of the server and of others, what it says, and what computes. Null: it is lost. */
export interface TabFlaw {
  told?(message: ServerMessage): ServerMessage | null;
  said?(message: PeerMessage, hear: (message: ServerMessage) => void): PeerMessage | null;
  /** What arrives of what was sent. */
  frames?(message: ArrayBuffer): readonly ArrayBuffer[];
  engine?(engine: Engine): Engine;
  /** Its replicas do each update when the next one is due. */
  readonly isReplicaLate?: true;
}

export interface Flaw {
  /** What is performed of what was decided. */
  effects?(effects: readonly RehearsedEffect[]): readonly RehearsedEffect[];
  /** Of what a donor says, what the server takes it for. */
  heard?(message: PeerMessage): PeerMessage;
  /** `scalarsOf`: what the sequential run updates a step by. */
  tab?(scalarsOf: ScalarsOf): TabFlaw;
}

type MakeShards = Engine['shards'];
const withShards = (
  engine: Engine,
  change: (shards: Shards, of: Parameters<MakeShards>) => Partial<Shards>,
): Engine => ({
  ...engine,
  async shards(...of) {
    const shards = await engine.shards(...of);
    return delegate(shards, change(shards, of));
  },
});

/** The same but for what is changed. Stages of this engine have to stay what they are: they are changed in place. */
function delegate<T extends object>(original: T, changed: Partial<T>): T {
  return new Proxy(original, {
    get(target, name) {
      const own: unknown = Reflect.get(name in changed ? changed : target, name);
      return typeof own === 'function' ? own.bind(name in changed ? changed : target) : own;
    },
  });
}

type Committed = Extract<ServerMessage, { type: 'committed' }>;
const isCommitted = (message: ServerMessage): message is Committed => message.type === 'committed';

const sent = (effect: RehearsedEffect): boolean => effect.type === 'send';

/** Where a frame says its epoch and step (frame.ts). */
const [EPOCH_AT, STEP_AT] = [4, 8];

function ackedBeforeItIsStored(): Flaw {
  return { effects: (effects) => [...effects.filter(sent), ...effects.filter((effect) => !sent(effect))] };
}

function summedInOrderOfArrival(): Flaw {
  let arrivals = 0;
  return {
    tab: () => ({
      frames(message) {
        arrivals++;
        return [message];
      },
      engine: (engine) =>
        withShards(engine, (shards) => {
          let waiting: (() => void)[] = [];
          return {
            begin() {
              waiting = [];
              shards.begin();
            },
            addOwn: (...own) => void waiting.push(() => shards.addOwn(...own)),
            addReceived: (...received) => void waiting.push(() => shards.addReceived(...received)),
            sumSquares() {
              const random = seededRandom(arrivals);
              for (const add of waiting.splice(0).sort(() => random() - 0.5)) add();
              return shards.sumSquares();
            },
          };
        }),
    }),
  };
}

/** Each frame of values comes after a copy of the first one of its name: which an inbox drops, unless it does not look. */
export function oldFramesAgain(isCompared: boolean): () => Flaw {
  return () => ({
    tab() {
      const first = new Map<string, ArrayBuffer>();
      return {
        frames(message) {
          const view = new DataView(message);
          if (FRAME_KINDS[view.getUint8(1) & 15] !== 'values') return [message];
          const name = new Uint8Array(message.slice(2, HEADER_BYTES)).fill(0, EPOCH_AT - 2, STEP_AT + 2).join();
          const old = first.get(name)?.slice(0);
          if (!old) first.set(name, message.slice(0));
          if (old && !isCompared) new Uint8Array(old).set(new Uint8Array(message, EPOCH_AT, 8), EPOCH_AT);
          return old ? [old, message] : [message];
        },
      };
    },
  });
}

function replicaOneStepBehind(): Flaw {
  return { tab: () => ({ isReplicaLate: true }) };
}

/** A holder whose slices differ by receiver is what digests are for: without them it costs a keeper its state. */
export function differingSlices(isCompared: boolean): () => Flaw {
  return () => {
    let isDone = false;
    return {
      tab: () => ({
        frames(message) {
          const view = new DataView(message);
          const isSlice = FRAME_KINDS[view.getUint8(1) & 15] === 'slice';
          if (isDone || !isSlice || view.getUint32(STEP_AT, true) !== 2) return [message];
          isDone = true;
          // Of the other sign: their squares are the same, which are compared too.
          view.setFloat32(message.byteLength - 4, -view.getFloat32(message.byteLength - 4, true), true);
          return [message];
        },
      }),
      heard: (message) =>
        isCompared || message.type !== 'report'
          ? message
          : {
              ...message,
              shards: message.shards.map((one) => ({
                ...one,
                digests: one.digests?.map(() => '0'.repeat(22)) ?? null,
              })),
            },
    };
  };
}

/** What it updates by is right: it is too early. */
function updatedBeforeTheCommit(): Flaw {
  return {
    tab(scalarsOf) {
      let early = '';
      return {
        said(message, hear) {
          if (message.type !== 'report') return message;
          const { epoch, step } = message;
          early = `${epoch} ${step}`;
          hear({ type: 'committed', epoch, step, ...scalarsOf(step), checkpoint: false });
          return message;
        },
        told: (message) =>
          isCommitted(message) && `${message.epoch} ${message.step}` === early && !message.checkpoint ? null : message,
      };
    },
  };
}

function commitForgottenByWhoLostItsLink(): Flaw {
  return {
    tab() {
      let hasLost = false;
      return {
        said(message) {
          if (message.type === 'fault' && message.reason === 'linkLost') hasLost = true;
          return message;
        },
        told(message) {
          if (message.type === 'prepare') hasLost = false;
          return message;
        },
        engine: (engine) =>
          withShards(engine, (shards) => ({
            update(scalars) {
              if (!hasLost) shards.update(scalars);
            },
          })),
      };
    },
  };
}

function abandonedGradientsKept(): Flaw {
  return {
    tab() {
      let wasAbandoned = false;
      return {
        told(message) {
          if (message.type === 'abandon') wasAbandoned = true;
          if (isCommitted(message)) wasAbandoned = false;
          return message;
        },
        engine: (engine) => ({
          ...engine,
          async stage(...of) {
            const stage: Stage = await engine.stage(...of);
            const begin = stage.begin.bind(stage);
            return Object.assign(stage, {
              begin: (...of: Parameters<typeof begin>) => (wasAbandoned ? undefined : begin(...of)),
            });
          },
        }),
      };
    },
  };
}

/** Values that others computed with may be of the step before where their primary is gone. */
function salvagedValuesBelieved(): Flaw {
  return {
    effects: (effects) =>
      effects.map((effect) => {
        if (effect.type !== 'send' || effect.message.type !== 'prepare') return effect;
        if (effect.message.source.from !== 'peers') return effect;
        const { salvaged: _, ...source } = effect.message.source;
        return { ...effect, message: { ...effect.message, source } };
      }),
  };
}

function scaleOfTheStepBefore(): Flaw {
  return {
    tab() {
      let before: Committed | null = null;
      return {
        told(message) {
          if (!isCommitted(message)) return message;
          const { clipScale } = before ?? message;
          before = message;
          return { ...message, clipScale };
        },
      };
    },
  };
}

/** What is uploaded is what the shard holds by then. */
function copiedWhileItTrains(): Flaw {
  return {
    tab: () => ({
      engine: (engine) =>
        withShards(engine, (shards) => {
          const copies: (readonly [copy: Float32Array, of: Parameters<Shards['readState']>])[] = [];
          return {
            async readState(...of) {
              const copy = await shards.readState(...of);
              copies.push([copy, of]);
              return copy;
            },
            update(scalars) {
              shards.update(scalars);
              for (const [copy, of] of copies) void shards.readState(...of).then((state) => copy.set(state));
            },
          };
        }),
    }),
  };
}

function momentsLeftBehind(): Flaw {
  return {
    tab() {
      let isHandOver = false;
      return {
        told(message) {
          if (message.type === 'prepare') isHandOver = message.source.from === 'peers';
          return message;
        },
        engine: (engine) =>
          withShards(engine, (shards) => ({
            writeState(block, range, kind, values) {
              shards.writeState(block, range, kind, isHandOver && kind === 'm' ? values.map(() => 0) : values);
            },
          })),
      };
    },
  };
}

function committedTwice(): Flaw {
  return {
    tab: () => ({
      engine: (engine) =>
        withShards(engine, (shards) => {
          let newest = 0;
          return {
            begin() {
              newest = 0;
              shards.begin();
            },
            update(scalars) {
              shards.update(scalars);
              if (scalars.time === newest) return;
              newest = scalars.time;
              shards.update(scalars);
            },
          };
        }),
    }),
  };
}

/** Each with a case that finds it, as `caseText` writes it; null: it needs nothing else to go wrong. */
export const PLANTED_BUGS: readonly (readonly [what: string, plant: () => Flaw, found: string | null])[] = [
  ['a commit is told before it is stored', ackedBeforeItIsStored, null],
  ['frames of an old epoch or step are accepted', oldFramesAgain(false), null],
  ['a replica is one step behind', replicaOneStepBehind, null],
  ['digests are not compared', differingSlices(false), null],
  ['values are made and sent before the commit', updatedBeforeTheCommit, '866 freeze last at frame gradient 20'],
  ['who lost its link forgets the commit', commitForgottenByWhoLostItsLink, '1117 kill stateOnly at frame values 135'],
  ['gradients of an abandoned step are kept', abandonedGradientsKept, '841 jumpClock stateOnly at frame activation 36'],
  [
    'what others computed with is taken for a lost keeper’s',
    salvagedValuesBelieved,
    '1121 vanish last at frame values 56',
  ],
  ['the clip scale is that of the step before', scaleOfTheStepBefore, null],
  ['a checkpoint is copied while it trains', copiedWhileItTrains, '491 hang stateOnly at signal 41'],
  ['a hand-over leaves moments behind', momentsLeftBehind, '741 leave replica at ready 3'],
  ['a commit is applied twice', committedTwice, null],
];

/** Found by the same plan over another network, where sums tell of their order. */
export const SUMMED_IN_ORDER_OF_ARRIVAL = summedInOrderOfArrival;
