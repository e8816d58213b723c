/**
 * What a monitoring system may know of a server (`/metrics`, Prometheus text format 0.0.4). Names carry their unit, and
 * no label names a donor: labels are from closed lists, so that their number is bounded.
 */
import type { CommitRecord } from '../swarm/coordinator/state.ts';
import type { RefusalReason, Snapshot } from '../swarm/messages.ts';

/** Upper bounds of the histogram of commit times. */
const COMMIT_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** Counts of a run since this server began. */
export class RunCounts {
  rollBacks = 0;
  refusedConnections = 0;
  readonly refusals = new Map<RefusalReason, number>();
  #steps = 0;
  #tokens = 0;
  #seconds = 0;
  #bytesDirect = 0;
  #bytesRelayed = 0;
  readonly #buckets = COMMIT_SECONDS.map(() => 0);

  committed({ tokens, seconds, bytesDirect, bytesRelayed }: CommitRecord): void {
    this.#steps++;
    this.#tokens += tokens;
    this.#seconds += seconds;
    this.#bytesDirect += bytesDirect;
    this.#bytesRelayed += bytesRelayed;
    COMMIT_SECONDS.forEach((most, index) => {
      if (seconds <= most) this.#buckets[index] = (this.#buckets[index] ?? 0) + 1;
    });
  }

  refused(reason: RefusalReason): void {
    this.refusals.set(reason, (this.refusals.get(reason) ?? 0) + 1);
  }

  text({ donors, committedSteps, steps, generation }: Snapshot): string {
    const states = new Map<string, number>();
    for (const { state } of donors) states.set(state, (states.get(state) ?? 0) + 1);
    const buckets = COMMIT_SECONDS.map((most, index): Sample => [`_bucket{le="${most}"}`, this.#buckets[index] ?? 0]);
    return [
      family('shoal_donors', 'gauge', 'Donors by what they do.', labelled('state', states)),
      family('shoal_run_steps', 'gauge', 'Steps that the run has.', [['', steps]]),
      family('shoal_run_committed_steps', 'gauge', 'Steps that stand committed.', [['', committedSteps]]),
      family('shoal_run_generation', 'gauge', 'Roll-backs of the run in all.', [['', generation]]),
      family('shoal_committed_steps_total', 'counter', 'Commits, also of steps done again.', [['', this.#steps]]),
      family('shoal_committed_tokens_total', 'counter', 'Tokens of these commits.', [['', this.#tokens]]),
      family('shoal_roll_backs_total', 'counter', 'Returns to a checkpoint.', [['', this.rollBacks]]),
      family('shoal_tensor_bytes_total', 'counter', 'Tensor bytes between donors.', [
        ['{way="direct"}', this.#bytesDirect],
        ['{way="relayed"}', this.#bytesRelayed],
      ]),
      family('shoal_refused_total', 'counter', 'Refused by reason.', labelled('reason', this.refusals)),
      family('shoal_refused_connections_total', 'counter', 'Connections over the limit of their address.', [
        ['', this.refusedConnections],
      ]),
      family('shoal_commit_seconds', 'histogram', 'Time from the start of a step to its commit.', [
        ...buckets,
        ['_bucket{le="+Inf"}', this.#steps],
        ['_sum', this.#seconds],
        ['_count', this.#steps],
      ]),
      family('shoal_resident_memory_bytes', 'gauge', 'Memory of this process.', [['', process.memoryUsage.rss()]]),
    ].join('');
  }
}

type Sample = readonly [suffix: string, value: number];

const labelled = (label: string, values: ReadonlyMap<string, number>): Sample[] =>
  [...values].sort().map(([value, count]) => [`{${label}="${value}"}`, count]);

const family = (name: string, type: string, help: string, samples: readonly Sample[]): string =>
  `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${samples.map(([suffix, value]) => `${name}${suffix} ${value}\n`).join('')}`;
