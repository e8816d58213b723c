const HIDDEN = -3.4e38; // the score of a key that is not seen

// The first of the keys that a row sees: the last W of all.
fn first_seen(seen: u32) -> u32 { return seen - min(seen, dims.W); }

// Where key j of the list that begins at `first` lies in the cache, in lanes: the first head of its keys.
fn key_place(first: u32, j: u32) -> u32 {
  return (load_pages_L(first + j / dims.P) * dims.P + j % dims.P) * 2u * dims.K * CHUNKS;
}

// The lane of the keys that head h of the queries reads, in a row of the cache.
fn key_lane(h: u32) -> u32 { return h / (dims.H / dims.K) * CHUNKS; }
fn query_lane(n: u32, h: u32) -> u32 { return (n * (dims.H + 2u * dims.K) + h) * CHUNKS; }
