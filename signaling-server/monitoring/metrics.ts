/**
 * What a monitoring system may know of a server (`/metrics`, Prometheus text format 0.0.4). Names carry their unit, and
 * no label names a donor: labels are from closed lists, so that their number is bounded.
 */

import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { nearestRank, totalOf } from '../../swarm/base.ts';
import type { CommitRecord } from '../../swarm/coordinator/events.ts';
import { STEP_TENSORS } from '../../swarm/messages/frame.ts';
import type { RefusalReason } from '../../swarm/messages/refusals.ts';
import type { Snapshot } from '../../swarm/messages/snapshot.ts';
import { SERVED_KINDS, type ServedKind } from '../../swarm/messages/watch.ts';
import type { StepTraffic } from '../../swarm/ways/stepTraffic.ts';

/** Upper bounds of the histogram of commit times. */
const COMMIT_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;
export const OPEN_METRICS_TYPE = Registry.OPENMETRICS_CONTENT_TYPE;

/** Upper bounds of the histogram of times to an answer's first token. */
const FIRST_TOKEN_SECONDS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
/** Whose tokens an answer is of. */
const ANSWERED_BY = ['donors', 'server'] as const;

/** Counts of a run since this server began. */
export class RunCounts {
  readonly #registry = new Registry<typeof METRICS_TYPE | typeof OPEN_METRICS_TYPE>();
  readonly #served: Record<ServedKind, number> = { tokens: 0, state: 0, base: 0, checkpoint: 0 };
  readonly #commits = this.#counter('shoal_committed_steps_total', 'Commits, also of steps done again.');
  readonly #tokens = this.#counter('shoal_committed_tokens_total', 'Tokens of these commits.');
  readonly #rollBacks = this.#counter('shoal_roll_backs_total', 'Returns to a checkpoint.');
  readonly #tensorBytes = this.#counter('shoal_tensor_bytes_total', 'Tensor bytes between donors.', ['way']);
  readonly #stepBytes = this.#counter('shoal_step_tensor_bytes_total', 'Tensor bytes of these commits, as planned.', [
    'kind',
  ]);
  readonly #servedBytes = this.#counter(
    'shoal_server_bytes_total',
    'Tokens, state and a base to donors, checkpoints from them.',
    ['kind'],
  );
  readonly #refused = this.#counter('shoal_refused_total', 'Refused by reason.', ['reason']);
  readonly #failures = this.#counter('shoal_failures_total', 'Times that something threw where nothing should.');
  readonly #refusedConnections = this.#counter(
    'shoal_refused_connections_total',
    'Connections over the limit of their address.',
  );
  readonly #commitSeconds = new Histogram({
    name: 'shoal_commit_seconds',
    help: 'Time from the start of a step to its commit.',
    buckets: COMMIT_SECONDS,
    registers: [this.#registry],
  });
  readonly #answeredTokens = this.#counter('shoal_answered_tokens_total', 'Tokens of answers, by who made them.', [
    'by',
  ]);
  readonly #unansweredCalls = this.#counter('shoal_unanswered_calls_total', 'Questions sent away for want of a place.');
  readonly #firstTokenSeconds = new Histogram({
    name: 'shoal_first_token_seconds',
    help: 'Time from a question to the first token of its answer.',
    buckets: FIRST_TOKEN_SECONDS,
    registers: [this.#registry],
  });
  readonly #donors = this.#gauge('shoal_donors', 'Donors by what they do.', ['state']);
  readonly #steps = this.#gauge('shoal_run_steps', 'Steps that the run has.');
  readonly #committedSteps = this.#gauge('shoal_run_committed_steps', 'Steps that stand committed.');
  readonly #generation = this.#gauge('shoal_run_generation', 'Roll-backs of the run in all.');
  readonly #links = this.#gauge('shoal_links', 'Ways between the donors of the plan, each direction by itself.', [
    'way',
  ]);
  readonly #roundTrip = this.#gauge('shoal_link_round_trip_seconds', 'Round trip of these ways.', ['of']);
  readonly #rate = this.#gauge('shoal_link_bytes_per_second', 'Rate of these ways, as far as measured.', ['of']);
  readonly #residentBytes = this.#gauge('shoal_resident_memory_bytes', 'Memory of this process.');

  readonly #phase = this.#gauge('shoal_run_phase', 'What the run does: 1 for the phase it is in.', ['phase']);
  readonly #loss = this.#gauge('shoal_run_loss', 'Of the newest step, nats a token (of preference pairs, a pair).');
  readonly #heldOutLoss = this.#gauge('shoal_run_held_out_loss', 'Newest loss on unseen text, in the same unit.');
  readonly #answersRight = this.#gauge('shoal_run_answers_right', 'Share of the newest evaluation’s answers.');
  readonly #speed = this.#gauge('shoal_run_tokens_per_second', 'Over the newest steps; 0 while none is done.');
  readonly #lastCommit = this.#gauge('shoal_last_commit_timestamp_seconds', 'Unix time of the newest commit.');
  readonly #uncopied = this.#gauge('shoal_run_uncopied_blocks', 'Blocks a part of which one donor alone has.');
  readonly #lastCheckpoint = this.#gauge(
    'shoal_last_checkpoint_timestamp_seconds',
    'Unix time of the newest checkpoint.',
  );

  /** `lastCheckpointMs`: by an earlier server; null: there was none. */
  constructor(lastCheckpointMs: number | null = null) {
    if (lastCheckpointMs !== null) this.#lastCheckpoint.set(lastCheckpointMs / 1_000);
    // There from the first scrape on.
    for (const way of ['direct', 'relayed'] as const) this.#tensorBytes.inc({ way }, 0);
    for (const kind of STEP_TENSORS) this.#stepBytes.inc({ kind }, 0);
    for (const kind of SERVED_KINDS) this.#servedBytes.inc({ kind }, 0);
    for (const by of ANSWERED_BY) this.#answeredTokens.inc({ by }, 0);
  }

  /** `traffic`: of the plan under which the step was done; null where that is not kept. */
  committed({ tokens, seconds, bytesDirect, bytesRelayed }: CommitRecord, traffic: StepTraffic | null): void {
    this.#commits.inc();
    this.#tokens.inc(tokens);
    this.#tensorBytes.inc({ way: 'direct' }, bytesDirect);
    this.#tensorBytes.inc({ way: 'relayed' }, bytesRelayed);
    for (const kind of STEP_TENSORS) this.#stepBytes.inc({ kind }, traffic?.[kind] ?? 0);
    this.#commitSeconds.observe(seconds);
    this.#lastCommit.setToCurrentTime();
  }

  served(kind: ServedKind, bytes: number): void {
    this.#servedBytes.inc({ kind }, bytes);
    this.#served[kind] += bytes;
  }

  /** Since this server began. */
  get servedBytes(): Readonly<Record<ServedKind, number>> {
    return this.#served;
  }

  checkpointed(): void {
    this.#lastCheckpoint.setToCurrentTime();
  }

  refused(reason: RefusalReason): void {
    this.#refused.inc({ reason });
  }

  failed(): void {
    this.#failures.inc();
  }

  /** A token of an answer; `firstSeconds`: it is the first one, so long after the question. */
  tokenAnswered(by: (typeof ANSWERED_BY)[number], firstSeconds: number | null): void {
    this.#answeredTokens.inc({ by });
    if (firstSeconds !== null) this.#firstTokenSeconds.observe(firstSeconds);
  }

  sentAway(): void {
    this.#unansweredCalls.inc();
  }

  refusedConnection(): void {
    this.#refusedConnections.inc();
  }

  rolledBack(): void {
    this.#rollBacks.inc();
  }

  /** `links`: as the plan's donors measured them. */
  text(snapshot: Snapshot, isOpen = false): Promise<string> {
    const { donors, committedSteps, steps, generation, links = [] } = snapshot;
    this.#phase.reset();
    this.#phase.set({ phase: snapshot.phase }, 1);
    for (const [gauge, value] of [
      [this.#loss, snapshot.loss],
      [this.#heldOutLoss, snapshot.evaluationLoss],
      [this.#answersRight, snapshot.answersRight ?? null],
      [this.#speed, snapshot.tokensPerSecond ?? 0],
    ] as const)
      if (value === null) gauge.reset();
      else gauge.set(value);
    this.#donors.reset();
    for (const { state } of donors) this.#donors.inc({ state });
    this.#steps.set(steps);
    this.#committedSteps.set(committedSteps);
    this.#generation.set(generation);
    this.#uncopied.set(snapshot.uncopied?.length ?? 0);
    for (const way of ['direct', 'relayed'] as const)
      this.#links.set({ way }, links.filter(({ route }) => route === way).length);
    const seconds = links.flatMap(({ roundTripMs }) => (roundTripMs === null ? [] : roundTripMs / 1000));
    setSpread(this.#roundTrip, seconds);
    setSpread(
      this.#rate,
      links.flatMap(({ bytesPerSecond }) => bytesPerSecond ?? []),
    );
    this.#residentBytes.set(process.memoryUsage.rss());
    this.#registry.setContentType(isOpen ? OPEN_METRICS_TYPE : METRICS_TYPE);
    return this.#registry.metrics();
  }

  #counter<Label extends string>(name: string, help: string, labelNames: Label[] = []): Counter<Label> {
    return new Counter({ name, help, labelNames, registers: [this.#registry] });
  }

  #gauge<Label extends string>(name: string, help: string, labelNames: Label[] = []): Gauge<Label> {
    return new Gauge({ name, help, labelNames, registers: [this.#registry] });
  }
}

/** Least, median and most; nothing where nothing was measured. */
function setSpread(gauge: Gauge<'of'>, values: readonly number[]): void {
  gauge.reset();
  for (const [of, share] of Object.entries({ least: 0, median: 0.5, most: 1 })) {
    const value = nearestRank(values, share);
    if (value !== null) gauge.set({ of }, value);
  }
}

/** What a process of a site is to one of its runs. */
export interface RunRole {
  readonly name: string;
  readonly isLeading: boolean;
  /** Some process leads it that this one can reach. */
  readonly isLed: boolean;
  readonly donors: number;
}

/** Of a process of a site, beside or in place of a run's; `malformed`: how often another one said what cannot be read. */
export function gatewayMetrics(roles: readonly RunRole[], malformed: number): Promise<string> {
  const registry = new Registry();
  const gauge = (name: string, help: string, value: number): void =>
    new Gauge({ name, help, registers: [registry] }).set(value);
  const each = (name: string, help: string, of: (role: RunRole) => number): void => {
    const gauge = new Gauge({ name, help, labelNames: ['run'], registers: [registry] });
    for (const role of roles) gauge.set({ run: role.name }, of(role));
  };
  const donors = totalOf(roles, (role) => role.donors);
  gauge('shoal_gateway_donors', 'Donors whose connection ends at this process.', donors);
  gauge('shoal_site_leading', 'Whether this process leads a run.', Number(roles.some(({ isLeading }) => isLeading)));
  const isLed = Number(roles.every((role) => role.isLed));
  gauge('shoal_site_led', 'Whether every run is led by a process that this one can reach.', isLed);
  each('shoal_run_gateway_donors', 'Donors of a run whose connection ends at this process.', (role) => role.donors);
  each('shoal_run_leading', 'Whether this process leads a run.', ({ isLeading }) => Number(isLeading));
  each('shoal_run_led', 'Whether any process leads a run that this one can reach.', (role) => Number(role.isLed));
  const help = 'What other processes of the site said and could not be read.';
  new Counter({ name: 'shoal_site_malformed_total', help, registers: [registry] }).inc(malformed);
  gauge('shoal_resident_memory_bytes', 'Memory of this process.', process.memoryUsage.rss());
  return registry.metrics();
}
