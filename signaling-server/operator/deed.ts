/** What an operator asked for, as the history tells it: what was done, or what was wanted and refused. Pure. */

/** As in "wanted to create run a", and "created run a". */
export interface Deed {
  readonly wish: string;
  readonly done: string;
  /** What it was done to; may be empty. */
  readonly object: string;
}

export const deed = (wish: string, done: string, object = ''): Deed => ({ wish, done, object });

const joined = (verb: string, object: string): string => (object === '' ? verb : `${verb} ${object}`);

/** `refusal`: why nothing was done; null: it was. */
export const deedText = ({ wish, done, object }: Deed, refusal: string | null): string =>
  refusal === null ? joined(done, object) : `wanted to ${joined(wish, object)}: refused, ${refusal}`;
