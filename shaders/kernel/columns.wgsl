// Sums down the columns of [N][C] by one workgroup for COLUMNS lanes of the row, in a fixed order: the rows are dealt to
// its SHARES, whose sums are then added in runs, and the runs' in order. The kernel says what a column's sum is: `Sum`
// (zero when made), `term_of` lane c of one row, `plus`, and `add_to` for what the sums are added to.
// A row of weights makes few workgroups, so each invocation has four rows under way.
const RUNS = 8u;
var<workgroup> shares: array<Sum, COLUMNS * SHARES>;

fn run(group: vec3u, groups: vec3u, local: u32) {
  let column = local % COLUMNS;
  let share = local / COLUMNS;
  let c = group.x * COLUMNS + column;
  let inside = c < dims.C / WIDTH;
  if (inside) { shares[local] = four_sums_of(c, share); }
  workgroupBarrier();
  var sum = Sum();
  if (share < RUNS) {
    for (var other = share; other < SHARES; other += RUNS) { sum = plus(sum, shares[other * COLUMNS + column]); }
    shares[local] = sum; // which no other invocation has read
  }
  workgroupBarrier();
  if (!inside || share != 0u) { return; }
  for (var run = 1u; run < RUNS; run++) { sum = plus(sum, shares[run * COLUMNS + column]); }
  add_to(c, sum);
}

fn four_sums_of(c: u32, first: u32) -> Sum {
  var sum0 = Sum(); var sum1 = Sum(); var sum2 = Sum(); var sum3 = Sum();
  var n = first;
  for (; n + 3u * SHARES < dims.N; n += 4u * SHARES) {
    sum0 = plus(sum0, term_of(c, n));
    sum1 = plus(sum1, term_of(c, n + SHARES));
    sum2 = plus(sum2, term_of(c, n + 2u * SHARES));
    sum3 = plus(sum3, term_of(c, n + 3u * SHARES));
  }
  for (; n < dims.N; n += SHARES) { sum0 = plus(sum0, term_of(c, n)); }
  return plus(plus(sum0, sum1), plus(sum2, sum3));
}
