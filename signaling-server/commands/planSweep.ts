/** `shoal plan --sweep`: what varies, and what comes of it as a document, a table and a picture. */
import { at, type Result, rounded } from '../../swarm/base.ts';
import type { ClusterPlan } from '../../swarm/planner/clusterPlan.ts';
import type { IslandPlan } from '../../swarm/planner/islandPlan.ts';
import {
  type PredictedRate,
  parseSweep,
  type Sweep,
  type SweepAxis,
  type SweepCell,
} from '../../swarm/planner/sweep.ts';
import { axisValue, drawSweep } from '../../swarm/planner/sweepDrawing.ts';
import { secondsText } from '../../swarm/quantityText.ts';
import { filePlaceFault, saveText } from '../files/outputPlace.ts';
import { aligned } from './aligned.ts';
import { badInput, need } from './failure.ts';

interface SweepOptions {
  readonly sweep?: string;
  readonly svg?: string;
  readonly whatIf?: string;
  readonly json?: boolean;
}

/** Null: nothing varies. */
export function sweptAxes({ sweep, svg, whatIf }: SweepOptions): readonly SweepAxis[] | null {
  if (sweep === undefined) {
    if (svg !== undefined) throw badInput('--svg needs --sweep');
    return null;
  }
  if (whatIf !== undefined) throw badInput('--what-if does not go with --sweep: a factor is an axis of one value');
  const fault = svg === undefined ? null : filePlaceFault(svg);
  if (fault !== null) throw badInput(`--svg: ${fault}`);
  return need(parseSweep(sweep), (reason) => badInput(`--sweep: ${reason}`));
}

export function swarmRate(planned: Result<ClusterPlan>): PredictedRate | null {
  if (!planned.ok) return null;
  const { tokensPerSecond, stepSeconds } = planned.value.predicted;
  return { tokensPerSecond, seconds: stepSeconds, objective: tokensPerSecond };
}

export function islandRate(planned: Result<IslandPlan>): PredictedRate | null {
  if (!planned.ok) return null;
  const { tokensPerSecond, roundSeconds, expectedTokensPerSecond } = planned.value.predicted;
  return { tokensPerSecond, seconds: roundSeconds, objective: expectedTokensPerSecond };
}

export async function printSweep(swept: Sweep, title: string, { svg, json }: SweepOptions): Promise<void> {
  if (svg !== undefined) {
    const made = await saveText(svg, drawSweep(swept, title));
    if (made !== null) process.stderr.write(`The folder ${made} was made for it.\n`);
  }
  process.stdout.write(json ? `${JSON.stringify(swept)}\n` : sweepTable(swept));
}

function sweepTable({ axes, cells }: Sweep): string {
  const [rows, columns] = [at(axes, 0), axes[1]];
  const lines =
    columns === undefined
      ? [
          [rows.name, 'tokens a second', 'step or round', 'doubled helps most'],
          ...cells.map((cell, index) => [
            axisValue(rows, at(rows.values, index)),
            ...(cell.seconds === null
              ? ['does not fit', '', cell.limit]
              : [rateText(cell), secondsText(cell.seconds), cell.limit]),
          ]),
        ]
      : [
          [`${rows.name} \\ ${columns.name}`, ...columns.values.map((value) => axisValue(columns, value))],
          ...rows.values.map((value, row) => [
            axisValue(rows, value),
            ...cells
              .slice(row * columns.values.length, (row + 1) * columns.values.length)
              .map((cell) => `${rateText(cell)} ${cell.limit}`),
          ]),
        ];
  const legend = columns === undefined ? [] : ['In each cell: tokens a second, and what alone doubled helps most.'];
  return [...aligned(lines, '  '), ...legend, ''].join('\n');
}

const rateText = ({ tokensPerSecond }: SweepCell): string =>
  tokensPerSecond === null ? 'does not fit,' : rounded(tokensPerSecond, 4);
