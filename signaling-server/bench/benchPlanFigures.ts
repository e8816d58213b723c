/** What `shoal bench plan` found out, as it is printed. */
import { at, median, totalOf } from '../../swarm/base.ts';

export interface Measured {
  readonly name: string;
  readonly plan: string;
  readonly predictedSeconds: number;
  readonly medianSeconds: number;
  /** Predicted over measured. */
  readonly ratio: number;
  /** The same, predicted once more with how long each piece of work took in the steps that were measured. */
  readonly knownRatio: number;
  readonly tokensPerSecond: number;
  /** Of a step, sent from donor to donor. */
  readonly bytes: number;
  /** Of the matrix product, before and after, over the time when the donors were measured. */
  readonly machine: readonly [number, number];
  readonly steady: boolean;
  readonly attempts: number;
}

export function summary(results: readonly Measured[]) {
  const rate = (name: string): number | null => results.find((one) => one.name === name)?.tokensPerSecond ?? null;
  const alone = results.filter(({ name }) => name.startsWith('alone'));
  const [auto, equal] = [rate('auto'), rate('equal')];
  const sum = totalOf(alone, ({ tokensPerSecond }) => tokensPerSecond);
  return {
    plans: results,
    autoOverEqual: auto !== null && equal !== null ? auto / equal : null,
    autoOverSumAlone: auto !== null && alone.length > 0 ? auto / sum : null,
  };
}

/** One measurement. */
export function line(result: Measured | undefined): string {
  if (!result) return '';
  const { name, plan, predictedSeconds, medianSeconds, ratio, knownRatio } = result;
  const { tokensPerSecond, bytes, machine, steady, attempts } = result;
  const seconds = `predicted ${predictedSeconds.toFixed(3)} s, measured ${medianSeconds.toFixed(3)} s, ratio ${ratio.toFixed(3)}, by its own spans ${knownRatio.toFixed(3)}`;
  const product = `product ${machine.map((factor) => factor.toFixed(2)).join(' ')}${steady ? '' : ' NOT STEADY'}`;
  return `${name.padEnd(8)} ${seconds}, ${tokensPerSecond.toFixed(0)} tokens/s, ${bytes} bytes, ${product}, ${attempts}x  ${plan}`;
}

interface OverRounds {
  readonly name: string;
  readonly medianSeconds: number;
  /** The step beside that of the first plan in the same round, so that a machine that drifts troubles neither: median, least, most. */
  readonly overFirst: readonly [number, number, number];
  readonly predictedOverFirst: number;
  /** The least and the most that the matrix product took. */
  readonly machine: readonly [number, number];
}

/** Of plans that were measured in turn, `rounds` times each. */
export function overRounds(results: readonly Measured[], rounds: number): OverRounds[] {
  const size = results.length / rounds;
  const middle = (values: readonly number[]): number => median(values) ?? Number.NaN;
  return results.slice(0, size).map(({ name }, place) => {
    const own = results.filter((_, index) => index % size === place);
    const beside = (of: (one: Measured) => number): number[] =>
      own.map((one, round) => of(one) / of(at(results, round * size)));
    const ratios = beside(({ medianSeconds }) => medianSeconds);
    const products = own.flatMap(({ machine }) => machine);
    return {
      name,
      medianSeconds: middle(own.map(({ medianSeconds }) => medianSeconds)),
      overFirst: [middle(ratios), Math.min(...ratios), Math.max(...ratios)],
      predictedOverFirst: middle(beside(({ predictedSeconds }) => predictedSeconds)),
      machine: [Math.min(...products), Math.max(...products)],
    };
  });
}

export function print(results: readonly Measured[], rounds: number): void {
  for (const result of results) console.log(line(result));
  for (const { name, medianSeconds, overFirst, predictedOverFirst, machine } of overRounds(results, rounds)) {
    if (rounds === 1) break;
    const [ratio, least, most] = overFirst.map((value) => value.toFixed(3));
    const [quick, slow] = machine.map((value) => value.toFixed(2));
    console.log(
      `${name.padEnd(8)} ${rounds} rounds: ${medianSeconds.toFixed(3)} s, over the first plan's ${ratio} (${least} to ${most}), predicted ${predictedOverFirst.toFixed(3)}; product ${quick} to ${slow}`,
    );
  }
  const { autoOverEqual, autoOverSumAlone } = summary(results);
  if (autoOverEqual !== null) console.log(`auto over the equal split: ${autoOverEqual.toFixed(2)}`);
  if (autoOverSumAlone !== null) console.log(`auto over the sum of each alone: ${autoOverSumAlone.toFixed(2)}`);
}
