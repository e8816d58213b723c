/**
 * A stage's work as a straight list: the model's rows with every activation and gradient named, in forward order. The
 * backward is the same list from the end. Naming them once, here, lets the memory prediction and the GPU stage read
 * the same list, so that what is predicted is what is allocated.
 *
 * Gradients: rows that add a residual share one gradient buffer along the chain, so the gradient of the residual
 * stream is one buffer for a whole stage (`stream`), one for each micro-batch in flight since it waits between the
 * head's backward and the layers'. A stage before the last one hands it on, as it does what leaves its layers, before it
 * works on anything else: there both have one place for all micro-batches. A gradient that is written twice is set first,
 * then added to.
 *
 * Logits: of all activations these alone are wide as the vocabulary. So the product that makes them and the loss, with
 * their backwards, are done for a run of rows at a time, and the gradients of all runs add up.
 *
 * A stage that computes layers again does the same with the end of each layer, whose activations are its widest: all
 * behind the last norm works on each row alone. What lives only inside a run has room for a run.
 *
 * Places: gradients that are never there at once lie in one place, and so do what leaves a stage's layers and the
 * gradient of its stream, where both are handed on.
 */
import { at, invariant, type Range } from '../base.ts';
import { type Compute, ELEMENT_BYTES } from '../precision.ts';
import { alignmentOf } from './layout.ts';
import { type BlockName, layerBlock, type Model, type Operation } from './model.ts';

/** The gradient of the residual stream: what comes into a stage's backward and what leaves it. */
export const STREAM = 'stream';
/** The activation that a stage receives: rows of width C. */
export const INPUT = 'input';
/** Most bytes that logits take, while 64 rows of floats take no more (a vocabulary of 262,144). */
export const LOGITS_BYTES = 64 * 2 ** 20;
/** Most bytes of the widest activation that a run of a layer's end takes. */
export const RUN_BYTES = 32 * 2 ** 20;
/** The gradient of an adapter's h, of whichever row is at work. */
export const LOW_GRADIENT = 'gradient/low';
/** Scope of what a layer's backward computes again: its activations have one place for all such layers and slots. */
const AGAIN = 'again';

export interface Step {
  readonly operation: Operation;
  /** Where it stands: labels and spans say `layer.3 linear`. */
  readonly scope: BlockName;
  /** Activation read, null for token ids. For attention the qkv, for the loss the logits. A rotary row has x = y. */
  readonly x: string | null;
  /** Activation written; null for the loss, which writes only its gradient. */
  readonly y: string | null;
  readonly residual: string | null;
  /** Gradient buffers of x and y. */
  readonly dx: string | null;
  readonly dy: string | null;
  /** True where dx was written before in this backward: add, do not set. */
  readonly accumulate: boolean;
  /** False where nothing that is trained lies below x: nobody reads dx, and it is not made. */
  readonly hasTrainedBelow: boolean;
  /** Set where x came out of a GELU: dx is then the gradient of the value before it. */
  readonly xBeforeGelu: string | null;
}

export interface Program {
  readonly layers: Range;
  readonly first: boolean;
  readonly last: boolean;
  /** Embedding (first stage) and layers. */
  readonly body: readonly Step[];
  /** The backward of the body, last block first. */
  readonly backward: readonly BlockSteps[];
  /** Final norm (last stage): its forward, all of the loss's and its backward run in one go. */
  readonly head: readonly Step[];
  /** Logits and loss (last stage): forward and backward of `lossRows` rows, then of the next ones. */
  readonly loss: readonly Step[];
  readonly lossRows: number;
  /** Rows of a run of a layer's end; 0: no block has one. */
  readonly runRows: number;
  /** The stream as it leaves the layers. */
  readonly output: string;
  /** Width in elements a row, of every activation kept from forward to backward. Extra ones (statistics) are the engine's. */
  readonly kept: ReadonlyMap<string, number>;
  /** Same for the activations of a layer that its backward computes again. */
  readonly again: ReadonlyMap<string, number>;
  /** Same for what is read before the next action: gradients, the normalised stream of the head, what is handed on. */
  readonly scratch: ReadonlyMap<string, number>;
  /** Same for what lives only inside one run of `lossRows` rows: the logits. */
  readonly logits: ReadonlyMap<string, number>;
  /** Same for what lives only inside one run of `runRows` rows. */
  readonly inRuns: ReadonlyMap<string, number>;
  /** Where those of `scratch` lie that share a place with others. */
  readonly places: ReadonlyMap<string, string>;
}

/** A block from its end. Where it is computed again its rows but the last come `before`, those of its `end` in their run. */
interface BlockSteps {
  readonly before: readonly Step[];
  readonly rows: readonly Step[];
  /** What goes by runs of rows, in forward order, behind all `rows`. */
  readonly end: readonly Step[];
  readonly isAgain: boolean;
}

/**
 * Rows of a run, of whose widest activation so many bytes are there: a power of two, so that most micro-batches divide by it
 * and no tile of a product is cut. On a GPU each run reads and adds to the whole gradient of a matrix, which 256 rows pay
 * for: hence no fewer bytes of logits, nor of what a layer's end makes.
 */
function rowsIn(bytes: number, width: number, compute: Compute = 'f32'): number {
  // A part of a tensor that starts at a multiple of so many rows starts where a binding may.
  const aligned = alignmentOf(compute);
  return Math.max(aligned, 2 ** Math.floor(Math.log2(bytes / (ELEMENT_BYTES[compute] * width))));
}

/** What a row adds to what it makes; null: nothing. */
const residualOf = (operation: Operation): string | null => ('residual' in operation ? operation.residual : null);

/** Behind the norm that a layer's end begins with. */
const isOfEnd = (operation: Operation): boolean =>
  operation.op === 'linear' || operation.op === 'gated' || (operation.op === 'rmsNorm' && operation.residual !== null);

/** The last rows of a layer, each of which works on every row of its input alone, where they make something in between. */
export function endOf(layer: readonly Operation[]): readonly Operation[] {
  const other = layer.findLastIndex((operation) => !isOfEnd(operation));
  const end = layer.slice(other + 1);
  return end.length > 1 ? end : [];
}

/** Rows of a run of a layer's end, for a micro-batch of so many rows in a stage that computes layers again; 0: it is done whole. */
export function runRowsOf(model: Model, rows: number, compute?: Compute, bytes = RUN_BYTES): number {
  const widths = model.layers > 0 ? endOf(model.layer(0)).map((operation) => widthOf(operation, model)) : [];
  const most = rowsIn(bytes, Math.max(1, ...widths.slice(0, -1)), compute);
  return widths.length > 0 && most < rows ? most : 0;
}

const input = (operation: Operation): string | null => {
  switch (operation.op) {
    case 'embed':
      return null;
    case 'attention':
      return operation.qkv;
    case 'crossEntropy':
      return operation.logits;
    default:
      return operation.x;
  }
};
const output = (operation: Operation): string | null => (operation.op === 'crossEntropy' ? null : operation.y);

function widthOf(operation: Operation, model: Model): number {
  switch (operation.op) {
    case 'embed':
    case 'layerNorm':
    case 'rmsNorm':
      return model.width;
    case 'linear':
      return operation.outWidth;
    case 'headNorm':
    case 'rotary':
      return (operation.heads + 2 * operation.keyValueHeads) * operation.headWidth;
    case 'attention':
      return operation.heads * operation.headWidth;
    case 'gated':
      return operation.innerWidth;
    case 'crossEntropy':
      return operation.vocabulary;
  }
}

/** Columns of h, R, in a row with an adapter; 0: it has none. */
export const lowWidth = (operation: Operation): number =>
  operation.op === 'linear' && operation.adapter ? operation.adapter.rank * operation.adapter.parts.length : 0;

/** What a row leaves for its backward beside y, with rows of these widths: the value before a GELU, an adapter's h. */
function besideOf(operation: Operation, y: string): [name: string, width: number][] {
  if (operation.op !== 'linear') return [];
  const low = lowWidth(operation);
  return [
    ...(operation.activation === 'gelu' ? [[`${y}.pre`, operation.outWidth] satisfies [string, number]] : []),
    ...(low > 0 ? [[`${y}.low`, low] satisfies [string, number]] : []),
  ];
}

/** Whether an activation of this name is computed again, and has one place for all slots. */
export const isAgain = (name: string): boolean => name.startsWith(`${AGAIN}/`);

/** Those of a block's activations in which anything is that is trained: in them or below. `isIn`: of the block's input. */
function aboveTrained(rows: readonly Operation[], isIn: boolean): ReadonlySet<string> {
  const found = new Set<string>(isIn ? ['x'] : []);
  for (const row of rows) {
    const inputs = [input(row), residualOf(row)];
    const y = output(row);
    if (y !== null && (isIn || lowWidth(row) > 0 || inputs.some((name) => name !== null && found.has(name))))
      found.add(y);
  }
  return found;
}

interface Bound {
  /** What came before, `x` of the rows. */
  readonly incoming: string;
  /** By `aboveTrained`. */
  readonly trained: ReadonlySet<string>;
  readonly isRecomputed?: boolean;
}

/** One list of rows with full names. Gradients along residuals share a buffer. */
function bind(scope: BlockName, rows: readonly Operation[], { incoming, trained, isRecomputed }: Bound): Step[] {
  const outgoing = rows.at(-1);
  const left = outgoing === undefined ? null : output(outgoing);
  const local = (name: string): string => {
    if (name === 'x') return incoming;
    return isRecomputed && name !== left ? `${AGAIN}/${name}` : `${scope}/${name}`;
  };
  const stream = new Set<string>(['x']);
  for (const row of rows) {
    if (row.op === 'embed') stream.add(row.y);
    const residual = residualOf(row);
    if (residual !== null && 'y' in row && stream.has(residual)) stream.add(row.y);
  }
  // The loss writes its gradient over the logits: one buffer under one name.
  const logits = new Set(rows.flatMap((row) => (row.op === 'crossEntropy' ? [row.logits] : [])));
  const gradient = (name: string): string => {
    if (stream.has(name)) return STREAM;
    return logits.has(name) ? local(name) : `gradient/${name}`;
  };
  const written = new Set<string>(scope === 'head' ? [] : [STREAM]);
  const gelus = new Map<string, string>();
  for (const row of rows) {
    if (row.op === 'linear' && row.activation === 'gelu') gelus.set(row.y, `${local(row.y)}.pre`);
  }
  const steps = rows.toReversed().map((operation): Step => {
    const x = input(operation);
    const y = output(operation);
    const residual = residualOf(operation);
    const dx = x === null ? null : gradient(x);
    const accumulate = dx !== null && written.has(dx);
    if (dx !== null) written.add(dx);
    return {
      operation,
      scope,
      x: x === null ? null : local(x),
      y: y === null ? null : local(y),
      residual: residual === null ? null : local(residual),
      dx,
      dy: y === null ? null : gradient(y),
      accumulate,
      hasTrainedBelow: x !== null && trained.has(x),
      xBeforeGelu: x === null ? null : (gelus.get(x) ?? null),
    };
  });
  invariant(steps.length > 0, `${scope} has no rows`);
  return steps.reverse();
}

interface ProgramOptions {
  /** Layers whose activations are not kept: the backward has only their input, and computes them again. */
  readonly recompute?: readonly number[];
  readonly logitsBytes?: number;
  readonly compute?: Compute;
  /** Of the largest micro-batch. */
  readonly samples?: number;
  readonly sequence?: number;
  /** Most bytes of a run's widest activation, in place of RUN_BYTES: for tests. */
  readonly runBytes?: number;
  /** Another stage of the same peer takes what this one made, maybe after other work: each micro-batch keeps its own. */
  readonly keepsMade?: boolean;
  /** A stage that gathers works on all micro-batches unit by unit, between which the stream waits. */
  readonly gathered?: number;
}

export function program(model: Model, layers: Range, options: ProgramOptions = {}): Program {
  const { recompute = [], logitsBytes, compute, samples = 0, sequence = 0, runBytes, keepsMade, gathered } = options;
  const first = layers[0] === 0;
  const last = layers[1] === model.layers;
  const body: Step[] = [];
  const backward: BlockSteps[] = [];
  const runRows = recompute.length > 0 ? runRowsOf(model, samples * sequence, compute, runBytes) : 0;
  const inRuns = new Map<string, number>();
  let stream = INPUT;
  // The stage before may train what it makes; where nothing stands, all is trained.
  let isTrained = !first || model.standing === undefined;
  const append = (scope: BlockName, rows: readonly Operation[], isRecomputed = false): void => {
    const trained = aboveTrained(rows, isTrained);
    const steps = bind(scope, rows, { incoming: stream, trained, isRecomputed });
    body.push(...steps);
    const end = runRows > 0 && isLayer(scope) ? steps.slice(steps.length - endOf(rows).length) : [];
    const whole = steps.slice(0, steps.length - end.length);
    // What the last row leaves is the next block's input, and kept for it.
    const before = end.length > 0 ? whole : steps.slice(0, -1);
    backward.unshift({ before: isRecomputed ? before : [], rows: whole.toReversed(), end, isAgain: isRecomputed });
    for (const { operation, y, dy } of end.slice(0, -1)) {
      if (y === null || dy === null) continue;
      const width = widthOf(operation, model);
      inRuns.set(dy, width);
      if (!isRecomputed) continue;
      for (const [name, own] of [[y, width] as const, ...besideOf(operation, y)]) inRuns.set(name, own);
    }
    const written = steps.at(-1)?.y;
    invariant(written, `${scope} leaves no stream`);
    stream = written;
    isTrained = trained.has(output(at(rows, rows.length - 1)) ?? '');
  };
  if (first) append('embedding', model.embedding);
  for (let index = layers[0]; index < layers[1]; index++)
    append(layerBlock(index), model.layer(index), recompute.includes(index));
  const trained = aboveTrained(model.head, isTrained);
  const ending = last ? bind('head', model.head, { incoming: stream, trained }) : [];
  const product = last ? ending.findIndex(({ y }) => y !== null && y === ending.at(-1)?.x) : 0;
  invariant(product >= 0, 'a head makes logits and ends with their loss');
  const [head, loss] = [ending.slice(0, product), ending.slice(product)];

  const made = new Set(last || keepsMade || gathered ? [] : [STREAM, stream]);
  const kept = new Map<string, number>();
  const scratch = new Map<string, number>([...made].map((name) => [name, model.width]));
  if (made.size === 0) kept.set(STREAM, model.width);
  if (!first) kept.set(INPUT, model.width);
  const again = new Map<string, number>();
  for (const { operation, y } of body) {
    if (y === null || inRuns.has(y)) continue;
    const place = isAgain(y) ? again : kept;
    if (!made.has(y)) place.set(y, widthOf(operation, model));
    for (const [name, width] of besideOf(operation, y)) place.set(name, width);
  }
  for (const { operation, y } of head) if (y !== null) scratch.set(y, widthOf(operation, model));
  const logits = new Map<string, number>();
  for (const { operation, y } of loss) {
    if (y === null) continue;
    for (const [name, width] of [[y, widthOf(operation, model)] as const, ...besideOf(operation, y)])
      logits.set(name, width);
  }
  for (const { x, dx } of [...body, ...ending]) {
    if (x === null || dx === null || kept.has(dx) || scratch.has(dx) || logits.has(dx) || inRuns.has(dx)) continue;
    const width = kept.get(x) ?? again.get(x) ?? scratch.get(x);
    invariant(width !== undefined, `nothing writes ${x}`);
    scratch.set(dx, width);
  }
  const low = Math.max(0, ...[...body, ...ending].map(({ operation }) => lowWidth(operation)));
  if (low > 0) scratch.set(LOW_GRADIENT, low);
  return {
    layers,
    first,
    last,
    body,
    backward,
    head,
    loss,
    lossRows: rowsIn(logitsBytes ?? LOGITS_BYTES, model.vocabulary, compute),
    runRows,
    output: stream,
    kept,
    again,
    scratch,
    logits,
    inRuns,
    places: new Map([...sharedPlaces(body, scratch), ...[...made].map((name) => [name, STREAM] as const)]),
  };
}

const isLayer = (scope: BlockName): boolean => scope !== 'embedding' && scope !== 'head';

/**
 * Gradients of what a layer makes, each in the first place that is free: from the last row that reads what it is the
 * gradient of, which writes it first, back to the row that made that.
 */
function sharedPlaces(body: readonly Step[], scratch: ReadonlyMap<string, number>): Map<string, string> {
  const [layer] = body.flatMap(({ scope }) => (isLayer(scope) ? [scope] : []));
  const steps = body.filter(({ scope }) => scope === layer);
  const found = new Map<string, string>();
  const ends: number[] = [];
  for (const [made, { dy }] of steps.entries()) {
    if (dy === null || dy === STREAM || found.has(dy) || !scratch.has(dy)) continue;
    const read = steps.findLastIndex(({ dx }) => dx === dy);
    const free = ends.findIndex((end) => end < made);
    const place = free < 0 ? ends.length : free;
    ends[place] = read;
    found.set(dy, `gradient/${place}`);
  }
  return found;
}
