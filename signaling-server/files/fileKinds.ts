/** The kinds of files that commands are given, known by their fields: one that was meant for another command is called by its name. */

type Fields = Readonly<Record<string, unknown>>;

interface FileKind {
  readonly name: string;
  /** Where there is one. */
  readonly example: string;
  isIt(fields: Fields): boolean;
}

const isList = Array.isArray;
const isObject = (value: unknown): value is Fields => typeof value === 'object' && value !== null && !isList(value);

export const RUN_FILE = 'a run file';
export const CLUSTER_FILE = 'a cluster file';
export const SCHEDULE_FILE = 'a schedule to simulate';
export const SIZING_FILE = 'a problem for assign';
export const PLAN_FILE = 'a plan';
export const MODEL_CONFIG = 'the config.json of a model';

const KINDS: readonly FileKind[] = [
  {
    name: RUN_FILE,
    example: 'for example docs/examples/run.json',
    isIt: ({ model, train, data }) => model !== undefined && (train !== undefined || data !== undefined),
  },
  {
    name: SIZING_FILE,
    example: 'for example docs/examples/assign.json',
    isIt: ({ globalBatch, peers }) => globalBatch !== undefined && isList(peers),
  },
  {
    name: CLUSTER_FILE,
    example: 'for example docs/examples/cluster.json',
    isIt: ({ globalBatch, peers }) => globalBatch === undefined && isList(peers) && isObject(peers[0]),
  },
  {
    name: SCHEDULE_FILE,
    example: 'for example docs/examples/schedule.json',
    isIt: ({ stages, microBatches }) => isList(stages) && typeof microBatches === 'number',
  },
  {
    name: PLAN_FILE,
    example: 'plan --json prints one',
    isIt: ({ stages, microBatches }) => isList(stages) && isList(microBatches),
  },
  { name: MODEL_CONFIG, example: 'export writes one', isIt: ({ model_type }) => typeof model_type === 'string' },
];

/** That a file is of another kind than expected; null: it may be of that kind, or of none that is known. */
export function otherKind(json: unknown, expected: string): string | null {
  const wanted = KINDS.find(({ name }) => name === expected);
  if (wanted === undefined || !isObject(json) || wanted.isIt(json)) return null;
  const found = KINDS.find((kind) => kind.isIt(json));
  return found === undefined ? null : `is ${found.name}, not ${expected} (${wanted.example})`;
}
