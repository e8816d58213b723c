/**
 * Which token an answer goes on with, drawn from the logits of its last row: the CPU's twin of shaders/answer/drawTokens.ts.
 *
 * Temperature 0 takes the likeliest. Else softmax(logits/temperature), cut to its nucleus (the fewest most likely tokens
 * that have a share `topP` of it: Holtzman et al. 2020), is drawn by the Gumbel-max trick: the token with the largest
 * logit/temperature + noise, where the noise is −log E with E exponential. The noise follows from seed, number and token
 * alone, so it does not matter on which donor and beside which other answers a token is drawn.
 */
import { at, mixed, total } from '../base.ts';

export interface TokenDraw {
  /** 0: always the likeliest token. */
  readonly temperature: number;
  /** Above 0; 1: every token may come. */
  readonly topP: number;
  /** Below 2^32. */
  readonly seed: number;
  /** How many tokens the answer has already. */
  readonly number: number;
}

/** Of any whole number: one below 2^32, itself where it is. */
export const seedWord = (seed: number): number => (seed ^ Math.floor(seed / 2 ** 32)) >>> 0;

/** The likeliest, or one drawn; of equal ones the first. `logits_V` are finite. */
export function drawToken(logits_V: ArrayLike<number>, { temperature, topP, seed, number }: TokenDraw): number {
  if (temperature === 0) return first(logits_V, (logit) => logit);
  const key = mixed((seed ^ mixed(number)) >>> 0);
  const least = topP < 1 ? leastOfNucleus(logits_V, temperature, topP) : -Infinity;
  return first(logits_V, (logit, v) =>
    logit < least ? -Infinity : logit / temperature - Math.log(exponential(mixed((key ^ v) >>> 0))),
  );
}

/** From a word, whose small values keep all of their digits: they make the largest noise. */
function exponential(word: number): number {
  return -Math.log1p(-(word + 0.5) * 2 ** -32);
}

function first(logits_V: ArrayLike<number>, scoreOf: (logit: number, v: number) => number): number {
  let [best, most] = [0, -Infinity];
  for (let v = 0; v < logits_V.length; v++) {
    const score = scoreOf(at(logits_V, v), v);
    if (score > most) [best, most] = [v, score];
  }
  return best;
}

/** The smallest logit of the nucleus; those equal to it are in it. */
function leastOfNucleus(logits_V: ArrayLike<number>, temperature: number, topP: number): number {
  const sorted = Array.from(logits_V).sort((a, b) => b - a);
  const most = at(sorted, 0);
  const weights = sorted.map((logit) => Math.exp((logit - most) / temperature));
  let rest = topP * total(weights);
  const last = weights.findIndex((weight) => {
    rest -= weight;
    return rest <= 0;
  });
  return at(sorted, last < 0 ? sorted.length - 1 : last);
}
