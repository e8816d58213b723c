/** What a group of donors has of a run with islands. */
export interface OwnIslands {
  /** The islands of these donors, where other groups compute the others (groups.ts); absent: all. */
  readonly own?: readonly number[];
  /** What all islands share lies with owners, and not with every keeper. */
  readonly owned?: true;
}
