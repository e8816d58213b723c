/**
 * What a backward that is split in two would take: gradients of the input, which the stage before waits for, and later those
 * of the weights, which nobody waits for but the step's end (ZB-H1 of Qi et al., arXiv 2401.10241: no more micro-batches in
 * flight than 1f1b has). No order of ours: it is simulated alone, to say what it would gain.
 */
import { at } from '../base.ts';

/** No order with a split backward ends earlier: a stage begins when the first micro-batch has come to it, and does all of its work. */
export const zeroBubbleLeast = (forwards: readonly number[], microBatches: number, hop = 0): number =>
  Math.max(
    ...forwards.map((own, stage) => {
      const wayIn = forwards.slice(0, stage).reduce((sum, one) => sum + one + hop, 0);
      return wayIn + 3 * microBatches * own;
    }),
  );

/** `forwards`: seconds of each stage's forward, and of each half of its backward; `hop`: of a message to the next stage. */
export function zeroBubbleSeconds(forwards: readonly number[], microBatches: number, hop = 0): number {
  const last = forwards.length - 1;
  /** Of each stage: when each micro-batch's input, its gradient and its split-off half are there. */
  const column = () => forwards.map(() => new Array<number>(microBatches).fill(Infinity));
  const [input, gradient, rest] = [column(), column(), column()];
  at(input, 0).fill(0);
  const done = forwards.map(() => ({ forward: 0, backward: 0, weights: 0, free: 0 }));
  for (;;) {
    let [stage, begins, kind] = [-1, Infinity, 'forward' as 'forward' | 'backward' | 'weights'];
    // What can begin first, of a stage's own what the next one waits for longest: gradients, then forwards.
    for (const [own, { forward, backward, weights, free }] of done.entries()) {
      const isBound = forward - backward >= forwards.length - own || forward - weights >= forwards.length;
      const ready = [
        ['backward', at(gradient, own)[backward] ?? Infinity],
        ['forward', isBound ? Infinity : (at(input, own)[forward] ?? Infinity)],
        ['weights', at(rest, own)[weights] ?? Infinity],
      ] as const;
      for (const [what, since] of ready)
        if (Math.max(free, since) < begins) [stage, begins, kind] = [own, Math.max(free, since), what];
    }
    if (stage < 0) break;
    const own = at(done, stage);
    const ends = begins + at(forwards, stage);
    own.free = ends;
    const place = own[kind]++;
    if (kind === 'forward' && stage === last) at(gradient, stage)[place] = ends;
    if (kind === 'forward' && stage < last) at(input, stage + 1)[place] = ends + hop;
    if (kind !== 'backward') continue;
    at(rest, stage)[place] = ends;
    if (stage > 0) at(gradient, stage - 1)[place] = ends + hop;
  }
  return Math.max(...done.map(({ free }) => free));
}
