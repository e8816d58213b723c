// For software adapters, where loads are what costs, and heads of one slice: an invocation keeps its four queries in private
// memory and walks over the keys one at a time, loading each once for the score and the sum. A vec4f of scores has an entry
// for each query. (Wider heads: attentionForwardSlices.wgsl.)
var<private> kept: array<Tile, SLICE>; // q, and y at the end

fn run(group: vec3u, groups: vec3u, local: u32) {
  let id = vec3u(group.x * HEADS + local, group.yz);
  if (!has_queries(id)) { return; }
  let at = queries_of(id);

  for (var i = 0u; i < 4u * CHUNKS; i++) {
    let row = (at.sample_row + min(at.first + i % 4u, at.last)) * at.row_lanes + at.head_lane;
    kept[i / 4u][i % 4u] = load_qkv_BTED(row + i / 4u);
  }
  var y0 = Tile(); var y1 = Tile(); var y2 = Tile(); var y3 = Tile();
  var y4 = Tile(); var y5 = Tile(); var y6 = Tile(); var y7 = Tile();
  var most = vec4f(HIDDEN); // of each query: largest score so far, and the sum of exp(score − largest)
  var sum = vec4f(0);

  for (var key = at.firsts.x; key <= min(at.first + 3u, at.last); key++) {
    let k_row = (at.sample_row + key) * at.row_lanes + at.k_lane;
    let v_row = k_row + dims.K * CHUNKS;
    var s = qkv_lane(k_row, 0u) * kept[0] + qkv_lane(k_row, 1u) * kept[1];
    s += qkv_lane(k_row, 2u) * kept[2] + qkv_lane(k_row, 3u) * kept[3];
    if (SLICE > 4u) {
      s += qkv_lane(k_row, 4u) * kept[C4] + qkv_lane(k_row, 5u) * kept[C5];
      s += qkv_lane(k_row, 6u) * kept[C6] + qkv_lane(k_row, 7u) * kept[C7];
    }
    s = select(vec4f(HIDDEN), s * at.scale, seen_by(at, key));
    let most_new = max(most, s);
    let p = exp(s - most_new);
    let shrink = exp(most - most_new);
    most = most_new;
    sum = sum * shrink + p;
    y0 = scale_columns(y0, shrink) + outer(qkv_lane(v_row, 0u), p);
    y1 = scale_columns(y1, shrink) + outer(qkv_lane(v_row, 1u), p);
    y2 = scale_columns(y2, shrink) + outer(qkv_lane(v_row, 2u), p);
    y3 = scale_columns(y3, shrink) + outer(qkv_lane(v_row, 3u), p);
    if (SLICE > 4u) {
      y4 = scale_columns(y4, shrink) + outer(qkv_lane(v_row, 4u), p);
      y5 = scale_columns(y5, shrink) + outer(qkv_lane(v_row, 5u), p);
      y6 = scale_columns(y6, shrink) + outer(qkv_lane(v_row, 6u), p);
      y7 = scale_columns(y7, shrink) + outer(qkv_lane(v_row, 7u), p);
    }
  }

  let share = 1.0 / sum;
  kept[0] = scale_columns(y0, share); kept[1] = scale_columns(y1, share);
  kept[2] = scale_columns(y2, share); kept[3] = scale_columns(y3, share);
  if (SLICE > 4u) {
    kept[C4] = scale_columns(y4, share); kept[C5] = scale_columns(y5, share);
    kept[C6] = scale_columns(y6, share); kept[C7] = scale_columns(y7, share);
  }
  for (var i = 0u; i < 4u * CHUNKS; i++) {
    let row = at.first + i % 4u;
    if (row < dims.T) { store_y_BTHD((at.sample_row + row) * at.width + at.head_lane + i / 4u, kept[i / 4u][i % 4u]); }
  }
  let value = most + log(sum);
  for (var i = 0u; i < 4u; i++) {
    if (at.first + i < dims.T) { store_lse_BHT(at.head * dims.T + at.first + i, value[i]); }
  }
}
