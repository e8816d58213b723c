/** All filters by name, and how one is applied. */
import { onlyAttribute } from './attributes.ts';
import { holds } from './predicates.ts';
import { mapFilter, type Others, SEQUENCE_FILTERS, selectFilter } from './sequenceFilters.ts';
import { FORMAT_FILTER, type PlainFilter, TEXT_FILTERS } from './textFilters.ts';
import { type Arguments, bound, type Effort, fail, type PythonValue, string } from './values.ts';

const ATTR: PlainFilter = [
  'obj name',
  ([value, name], effort) => onlyAttribute(value ?? null, string(name ?? null, 'the name of an attribute'), effort),
];
const PLAIN = new Map<string, PlainFilter>(Object.entries({ ...TEXT_FILTERS, ...SEQUENCE_FILTERS, attr: ATTR }));

const SELECTIONS: Readonly<Record<string, { readonly byPart: boolean; readonly keep: boolean }>> = {
  select: { byPart: false, keep: true },
  reject: { byPart: false, keep: false },
  selectattr: { byPart: true, keep: true },
  rejectattr: { byPart: true, keep: false },
};

/** Filters of Jinja2 that are refused, each with the reason. */
const REFUSED: Readonly<Record<string, string>> = {
  random: 'its text would be another each time',
  urlize: 'it is not done here',
  wordwrap: 'it is not done here',
};

export const isFilter = (name: string): boolean =>
  PLAIN.has(name) || ['map', 'format', ...Object.keys(SELECTIONS), ...Object.keys(REFUSED)].includes(name);

/** `value | name(…)`; the value comes first in what is given. */
export function applyFilter(name: string, given: Arguments, effort: Effort): PythonValue {
  effort.step();
  const plain = PLAIN.get(name);
  if (plain !== undefined) {
    const [parameters, apply] = plain;
    return apply(bound(`the filter ${name}`, parameters, given), effort);
  }
  if (name === 'format') return FORMAT_FILTER(given, effort);
  if (name === 'map') return mapFilter(given, othersOf(effort), effort);
  const selection = SELECTIONS[name];
  if (selection !== undefined) return selectFilter(given, { ...selection, others: othersOf(effort), effort });
  return fail(REFUSED[name] === undefined ? `there is no filter ${name}` : `the filter ${name}: ${REFUSED[name]}`);
}

const othersOf = (effort: Effort): Others => ({
  filter: (name, given) => applyFilter(name, given, effort),
  holds: (name, given) => holds(name, given, { isFilter, effort }),
});
