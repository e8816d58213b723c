// For software adapters: one invocation has one head of one row, its query and its sum in private memory.
var<private> q: array<Lane, CHUNKS>;
var<private> y: array<Lane, CHUNKS>;

fn run(group: vec3u, groups: vec3u, local: u32) {
  let index = group.x * HEADS + local;
  if (index >= dims.N * dims.H) { return; }
  let n = index / dims.H;
  let h = index % dims.H;
  let first = load_seen_N2(2u * n);
  let seen = load_seen_N2(2u * n + 1u);
  for (var c = 0u; c < CHUNKS; c++) {
    q[c] = load_qkv_NED(query_lane(n, h) + c) * dims.scale;
    y[c] = Lane();
  }
  var most = HIDDEN;
  var sum = 0.0;
  for (var j = first_seen(seen); j < seen; j++) {
    let k = key_place(first, j) + key_lane(h);
    let v = k + dims.K * CHUNKS;
    var dot = Lane();
    for (var c = 0u; c < CHUNKS; c++) { dot += q[c] * load_cache_RFD(k + c); }
    let s = total(dot);
    let most_new = max(most, s);
    let p = exp(s - most_new);
    let shrink = exp(most - most_new);
    most = most_new;
    sum = sum * shrink + p;
    for (var c = 0u; c < CHUNKS; c++) { y[c] = y[c] * shrink + p * load_cache_RFD(v + c); }
  }
  for (var c = 0u; c < CHUNKS; c++) { store_y_NHD(index * CHUNKS + c, y[c] / sum); }
}
