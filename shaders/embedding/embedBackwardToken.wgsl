// dtoken[id] += scale·Σ dx[n] over the rows n with that id, as sorted by sortTokens.ts. One invocation for each segment and
// lane of its row; segments past the count, and those of ids that are not among the R rows from F on, return at once, so the dispatch depends on N alone.

fn item(index: u32) {
  let chunks = dims.C / WIDTH;
  let segment = index / chunks;
  if (segment >= min(load_segments(0u), dims.N)) { return; }
  let chunk = index % chunks;
  let at = 1u + 3u * segment;
  let row = load_segments(at) - dims.F;
  if (row >= dims.R) { return; }
  let to = load_segments(at + 2u);
  var sum = Lane();
  for (var n = load_segments(at + 1u); n < to; n++) { sum += load_dx_NC(load_order_N(n) * chunks + chunk); }
  let i = row * chunks + chunk;
  store_dtoken_VC(i, load_dtoken_VC(i) + dims.scale * sum);
}
