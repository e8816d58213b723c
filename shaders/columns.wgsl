// Sums down the columns of [N][C], in a fixed order: a first stage over runs of rows, a second over their sums. The kernel
// says what a column's sum is: `Sum` (zero when made), `sum_of` over rows first, first + step, … of lane c, `plus`, and
// `add_to` for what the sums are added to.

// For software adapters: one invocation a lane of the row, all rows one run.
@compute @workgroup_size(ROWS)
fn columns(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= dims.C / WIDTH) { return; }
  add_to(id.x, sum_of(id.x, 0u, 1u));
}

// For GPUs: one workgroup for COLUMNS lanes of the row; the rows are dealt to its PARTS, whose sums are then added in order.
const COLUMNS = 4u;
const PARTS = 64u;
var<workgroup> parts: array<Sum, COLUMNS * PARTS>;

@compute @workgroup_size(COLUMNS, PARTS)
fn column_groups(
  @builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) local: vec3u,
  @builtin(local_invocation_index) index: u32,
) {
  let c = group.x * COLUMNS + local.x;
  let inside = c < dims.C / WIDTH;
  if (inside) { parts[index] = sum_of(c, local.y, PARTS); }
  workgroupBarrier();
  if (!inside || local.y != 0u) { return; }
  var sum = Sum();
  for (var part = 0u; part < PARTS; part++) { sum = plus(sum, parts[part * COLUMNS + local.x]); }
  add_to(c, sum);
}
