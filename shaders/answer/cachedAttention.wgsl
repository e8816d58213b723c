// For GPUs: a workgroup has one head of one row. Each invocation takes the score of one of 64 keys; then SHARES invocations
// for each lane of the head add up the weighted values, each of every SHARES-th key.
var<workgroup> q: array<Lane, CHUNKS>;
var<workgroup> weights: array<f32, TEAM>;
var<workgroup> places: array<u32, TEAM>;
var<workgroup> sums: array<Lane, TEAM>;

fn run(group: vec3u, groups: vec3u, local: u32) {
  let n = group.y;
  let h = group.x;
  let first = load_seen_N2(2u * n);
  let seen = load_seen_N2(2u * n + 1u);
  for (var c = local; c < CHUNKS; c += TEAM) { q[c] = load_qkv_NED(query_lane(n, h) + c) * dims.scale; }
  workgroupBarrier();
  let lane = local % CHUNKS;
  let share = local / CHUNKS;
  var y: array<Lane, OWN>;
  var most = HIDDEN;
  var sum = 0.0;
  for (var start = first_seen(seen); start < seen; start += TEAM) {
    let count = min(seen - start, TEAM);
    var s = HIDDEN;
    if (local < count) {
      let k = key_place(first, start + local) + key_lane(h);
      places[local] = k + dims.K * CHUNKS;
      var dot = Lane();
      for (var c = 0u; c < CHUNKS; c++) { dot += q[c] * load_cache_RFD(k + c); }
      s = total(dot);
    }
    let most_new = max(most, team_largest(local, s));
    let p = select(0.0, exp(s - most_new), local < count);
    weights[local] = p;
    let shrink = exp(most - most_new);
    most = most_new;
    sum = sum * shrink + team_total(local, p); // its barriers are those of weights and places, too
    for (var i = 0u; i < OWN; i++) {
      let c = lane + i * TEAM;
      var added = y[i] * shrink;
      if (c < CHUNKS && share < SHARES) {
        for (var j = share; j < count; j += SHARES) {
          added += weights[j] * load_cache_RFD(places[j] + c);
        }
      }
      y[i] = added;
    }
    workgroupBarrier();
  }
  if (CHUNKS > TEAM) {
    for (var i = 0u; i < OWN; i++) {
      let c = local + i * TEAM;
      if (c < CHUNKS) { store_y_NHD((n * dims.H + h) * CHUNKS + c, y[i] / sum); }
    }
    return;
  }
  sums[local] = y[0];
  workgroupBarrier();
  if (local >= CHUNKS) { return; }
  var whole = sums[local];
  for (var other = 1u; other < SHARES; other++) { whole += sums[local + other * CHUNKS]; }
  store_y_NHD((n * dims.H + h) * CHUNKS + local, whole / sum);
}
