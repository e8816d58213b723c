/** Which actions of a list are done together: of a layered stage all micro-batches of a pass, when the last one's turn has come. */
import { passesOf } from '../../../swarm/plan/layered.ts';
import type { ComputeAction } from '../../../swarm/schedule/action.ts';
import type { Role } from './role.ts';

export class PassList {
  readonly #role: Pick<Role, 'plan' | 'peer'>;
  readonly #isEvaluation: boolean;
  #waiting: ComputeAction[] = [];

  constructor(role: Pick<Role, 'plan' | 'peer'>, isEvaluation: boolean) {
    this.#role = role;
    this.#isEvaluation = isEvaluation;
  }

  /** Those that are done with this one, ascending; null: it waits for others. */
  with(action: ComputeAction): readonly ComputeAction[] | null {
    const { plan, peer } = this.#role;
    const stage = plan.stages[action.stage];
    const member = stage?.members.find((one) => one.peer === peer);
    if (!stage?.layered || !member || this.#isEvaluation) return [action];
    this.#waiting.push(action);
    const isWhole = passesOf(stage, member).some((pass) => pass.length === this.#waiting.length);
    return isWhole ? this.#waiting.splice(0) : null;
  }
}
