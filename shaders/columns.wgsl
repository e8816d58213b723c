// Sums down the columns of [N][C], in a fixed order: a first stage over runs of rows, a second over their sums. The kernel
// says what a column's sum is: `Sum` (zero when made), `sum_of` over rows first, first + step, … of lane c, `term_of` one
// row, `plus`, and `add_to` for what the sums are added to.

// For software adapters: one invocation a lane of the row, all rows one run.
@compute @workgroup_size(ROWS)
fn columns(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= dims.C / WIDTH) { return; }
  add_to(id.x, sum_of(id.x, 0u, 1u));
}

// For GPUs: one workgroup for COLUMNS lanes of the row; the rows are dealt to its PARTS, whose sums are then added in order.
// A row of weights makes few workgroups, so each invocation has four rows under way.
const COLUMNS = 4u;
const PARTS = 64u;
const RUNS = 8u;
var<workgroup> parts: array<Sum, COLUMNS * PARTS>;

@compute @workgroup_size(COLUMNS, PARTS)
fn column_groups(
  @builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) local: vec3u,
  @builtin(local_invocation_index) index: u32,
) {
  let c = group.x * COLUMNS + local.x;
  let inside = c < dims.C / WIDTH;
  if (inside) { parts[index] = four_sums_of(c, local.y, PARTS); }
  workgroupBarrier();
  var sum = Sum();
  if (local.y < RUNS) {
    for (var part = local.y; part < PARTS; part += RUNS) { sum = plus(sum, parts[part * COLUMNS + local.x]); }
    parts[index] = sum; // which no other invocation has read
  }
  workgroupBarrier();
  if (!inside || local.y != 0u) { return; }
  for (var run = 1u; run < RUNS; run++) { sum = plus(sum, parts[run * COLUMNS + local.x]); }
  add_to(c, sum);
}

fn four_sums_of(c: u32, first: u32, step: u32) -> Sum {
  var sum0 = Sum(); var sum1 = Sum(); var sum2 = Sum(); var sum3 = Sum();
  var n = first;
  for (; n + 3u * step < dims.N; n += 4u * step) {
    sum0 = plus(sum0, term_of(c, n));
    sum1 = plus(sum1, term_of(c, n + step));
    sum2 = plus(sum2, term_of(c, n + 2u * step));
    sum3 = plus(sum3, term_of(c, n + 3u * step));
  }
  for (; n < dims.N; n += step) { sum0 = plus(sum0, term_of(c, n)); }
  return plus(plus(sum0, sum1), plus(sum2, sum3));
}
