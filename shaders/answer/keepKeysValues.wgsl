// cache[place[n]] = the keys and values of row n, which stand behind its queries. One invocation for each lane.

fn item(index: u32) {
  let chunks = 2u * dims.K * dims.D / WIDTH;
  let n = index / chunks;
  if (n >= dims.N) { return; }
  let chunk = index % chunks;
  let queries = dims.H * dims.D / WIDTH;
  store_cache_RFD(load_place_N(n) * chunks + chunk, load_qkv_NED(n * (queries + chunks) + queries + chunk));
}
