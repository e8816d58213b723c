/** Reads a plan out of a file's JSON: a plan that this run can carry out, or one sentence. */
import { type Result, refusal, success } from '../../swarm/base.ts';
import { faultWords } from '../../swarm/fields.ts';
import { sentence } from '../../swarm/model/inputFields.ts';
import type { Model } from '../../swarm/model/model.ts';
import { type Plan, planSchema, problems } from '../../swarm/plan/plan.ts';
import { withStateSent } from '../../swarm/plan/tokenRows.ts';

/** Of what is known, and recognised, and not done yet. */
const COMES_LATER = 'comes with a later version of shoal';
/** A held-out round numbers its frames by micro-batch, with 16 bits for it. */
const HIGHEST_ID = 65_535;

/** One plan. */
export function parsePlan(
  json: unknown,
  path: string,
  model: Model,
  batch: Parameters<typeof problems>[1],
): Result<Plan> {
  const parsed = planSchema.safeParse(withoutDefaults(json));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return refusal(`${path}: ${sentence(issue && { ...issue, message: faultWords(issue) }, 'the plan')}`);
  }
  if (parsed.data.islands !== undefined)
    return refusal(`${path}: islands: a plan's place in a list of them says whose it is: expected none here`);
  const { warmup, ...others } = parsed.data;
  // The default is said by no field: then equal plans are equal.
  const given: Plan = warmup === 'overlap' ? { ...others, warmup } : others;
  const plan = withStateSent(model, given, batch);
  const unread = unreadField(json, plan, '');
  if (unread !== null) return refusal(`${path}: ${unread}`);
  const [first, ...more] = problems(model, batch, plan);
  if (first !== undefined) {
    const also = more.length === 0 ? '' : ` (and ${more.length} more)`;
    return refusal(`${path}: ${first.text}${also}: expected a plan for this model and ${batch.samples} samples a step`);
  }
  const gap = unsupported(plan);
  return gap === null ? success(plan) : refusal(`${path}: ${gap}`);
}

/** No limit is said by no field too. */
function withoutDefaults(json: unknown): unknown {
  if (json === null || typeof json !== 'object' || !('maxInFlight' in json) || json.maxInFlight !== null) return json;
  const { maxInFlight: _, ...others } = json;
  return others;
}

/** Predictions and explanations of `shoal plan`. */
const IGNORED = ['predicted', 'idle', 'reasons'];
/** Defaults that a plan does not say. Anything else is something that it has, or that no run does yet. */
const LATER_FIELDS = new Map<string, unknown>([
  ['in', 'gpu'],
  ['warmup', 'normal'],
  ['maxInFlight', null],
]);

/** The first field of the file that the plan does not have: it might have changed what the plan means. */
function unreadField(json: unknown, plan: unknown, place: string): string | null {
  if (json === null || typeof json !== 'object' || plan === null || typeof plan !== 'object') return null;
  const read = new Map<string, unknown>(Object.entries(plan));
  for (const [name, value] of Object.entries(json)) {
    const at = Array.isArray(json) ? `${place}[${name}]` : place === '' ? name : `${place}.${name}`;
    if (read.has(name)) {
      const deeper = unreadField(value, read.get(name), at);
      if (deeper !== null) return deeper;
    } else if (LATER_FIELDS.has(name)) {
      const expected = JSON.stringify(LATER_FIELDS.get(name));
      if (JSON.stringify(value) !== expected) return `${at} ${COMES_LATER}: expected ${expected}, or no such field`;
    } else if (place !== '' || !IGNORED.includes(name)) {
      return `${at.slice(0, 120)} is unknown: expected the fields that shoal plan --json writes`;
    }
  }
  return null;
}

/** What a valid plan may ask for that this version does not do. */
function unsupported({ microBatches }: Plan): string | null {
  const high = microBatches.find(({ id }) => id > HIGHEST_ID);
  return high ? `micro-batch ${high.id}: expected ids up to ${HIGHEST_ID}` : null;
}
