/**
 * Reads what `swarm --plan` is given: one plan, or of a run with islands one for each of them, in order, as `shoal plan
 * --json` writes them. Islands whose plans have the same donors are done by turns: theirs is one plan, with their numbers.
 */
import { at, type Result, refusal, success } from '../../swarm/base.ts';
import type { Model } from '../../swarm/model/model.ts';
import { type Plan, peers, type problems } from '../../swarm/plan/plan.ts';
import { PLAN_FILE } from '../files/fileKinds.ts';
import { readJsonFile } from '../files/jsonFile.ts';
import { parsePlan } from './planFile.ts';

/** Of each group of donors; the only one names no islands. */
export async function readPlans(
  path: string,
  model: Model,
  batch: Parameters<typeof problems>[1],
): Promise<Result<readonly Plan[]>> {
  const json = await readJsonFile(path, PLAN_FILE);
  if (!json.ok) return json;
  const { islands } = batch;
  const all = plansIn(json.value);
  if (all === null) {
    const plan = parsePlan(json.value, path, model, batch);
    return plan.ok ? success([plan.value]) : plan;
  }
  if (!islands) return refusal(`${path}: islands: the run has no train.islands: expected one plan`);
  if (islands.count === 'auto')
    return refusal(`${path}: islands: train.islands.count is "auto": expected a number, to have a plan for each`);
  if (all.length !== islands.count)
    return refusal(`${path}: islands: ${all.length} plans for ${islands.count} islands: expected one for each`);
  const read: Plan[] = [];
  for (const [island, text] of all.entries()) {
    const plan = parsePlan(text, `${path}: islands[${island}]`, model, batch);
    if (!plan.ok) return plan;
    read.push(plan.value);
  }
  return grouped(read, path);
}

function plansIn(json: unknown): readonly unknown[] | null {
  const has = json !== null && typeof json === 'object' && 'islands' in json && !('stages' in json);
  return has && Array.isArray(json.islands) ? json.islands : null;
}

function grouped(read: readonly Plan[], path: string): Result<readonly Plan[]> {
  const groups: { readonly plan: Plan; readonly islands: number[] }[] = [];
  for (const [island, plan] of read.entries()) {
    const own = peers(plan);
    const shared = groups.find((group) => peers(group.plan).some((peer) => own.includes(peer)));
    if (shared === undefined) groups.push({ plan, islands: [island] });
    else if (JSON.stringify(shared.plan) === JSON.stringify(plan)) shared.islands.push(island);
    else
      return refusal(
        `${path}: islands[${island}] has donors of islands[${at(shared.islands, 0)}] and another plan: expected the same plan, by turns, or other donors`,
      );
  }
  const [only, ...others] = groups;
  if (only !== undefined && others.length === 0) return success([only.plan]);
  return success(groups.map(({ plan, islands }) => ({ ...plan, islands })));
}
