/** The run that a donor's connection is of, as its welcome says it: the model, what computes it, its files and its tokens. */
import { invariant, type PeerId } from '../../../swarm/base.ts';
import type { RunFacts } from '../../../swarm/messages/runFacts.ts';
import type { Model } from '../../../swarm/model/model.ts';
import type { Compute } from '../../../swarm/precision.ts';
import { type Order, SEQUENTIAL, type TokenList } from '../../../swarm/run/data.ts';
import { modelToTrain, type Train } from '../../../swarm/run/runFile.ts';
import { type Sizes, sizesOf } from '../../../swarm/ways/partners.ts';
import type { RunWire } from '../../../swarm/wire.ts';
import type { Engine } from './role.ts';
import type { RunFiles } from './runFiles.ts';
import { NO_STORE, type PieceStore, StandingBase } from './standingBase.ts';
import { TokenSource } from './tokenSource.ts';

export interface JoinedRun {
  readonly peer: PeerId;
  readonly facts: RunFacts;
  readonly model: Model;
  readonly sizes: Sizes;
  readonly engine: Engine;
  readonly files: RunFiles;
  readonly tokens: TokenSource;
  /** The held-out text, where the run has one. */
  readonly evaluation: TokenSource | null;
  /** The weights that stand beside an adapter; null: all are trained. */
  readonly base: StandingBase | null;
}

export type OpenEngine = (model: Model, train: Train, wire: RunWire, compute?: Compute, evaluates?: boolean) => Engine;

export function joinedRun(
  peer: PeerId,
  facts: RunFacts,
  openEngine: OpenEngine,
  files: RunFiles,
  pieces: PieceStore = NO_STORE,
): JoinedRun {
  const model = modelToTrain(facts);
  invariant(model.ok, 'the server sent a model that it would have refused itself');
  const shape = { sequenceLength: facts.train.sequenceLength, vocabulary: model.value.vocabulary };
  const source = (list: TokenList, order: Order) =>
    new TokenSource(list, order, shape, (hash) => files.tokenShard(hash));
  const evaluates = facts.evaluation !== null;
  const engine = openEngine(model.value, facts.train, facts.wire, facts.compute, evaluates);
  return {
    ...{ peer, facts, files, engine },
    model: model.value,
    sizes: sizesOf(model.value, facts),
    tokens: source(facts.data, facts.order),
    evaluation: facts.evaluation ? source(facts.evaluation, SEQUENTIAL) : null,
    base: facts.base
      ? new StandingBase({
          ...{ model: model.value, encoding: facts.train.base ?? 'f32', base: facts.base, store: pieces },
          fetchPiece: (hash) => files.basePiece(hash),
        })
      : null,
  };
}
