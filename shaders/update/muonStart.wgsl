// x ← x / max(‖x‖, LEAST_NORM), ‖x‖² as partial sums. Each invocation adds these up for itself, in runs of sixteen: the
// products that follow take many times as long.
fn item(i: u32) {
  if (i >= dims.n / WIDTH) { return; }
  var squares = 0.0;
  for (var run = 0u; run < PARTIALS; run += 16u) {
    var sum = 0.0;
    for (var p = run; p < run + 16u; p++) { sum += load_partials(p); }
    squares += sum;
  }
  store_x(i, load_x(i) / max(sqrt(squares), LEAST_NORM));
}
