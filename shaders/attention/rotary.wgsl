// Turns each pair (x[d], x[d + D/2]) of the first H heads of a row, in place:
//   (a, b) → (a·cos − b·sin, b·cos + a·sin),   with sign·sin for sin. One invocation for each lane of pairs.
// A row's position counts from its example's first row.

fn item(index: u32) {
  let chunks = dims.D / 2u / WIDTH; // lanes of half a head
  let head = index / chunks; // n·H + h
  let n = head / dims.H;
  if (n >= dims.N) { return; }
  let chunk = index % chunks;
  let place = (n % dims.T - load_first_N(n)) * 2u * chunks + chunk;
  let cosine = load_table_TD(place);
  let sine = dims.sign * load_table_TD(place + chunks);
  let at = n * (dims.S / WIDTH) + (head % dims.H) * 2u * chunks + chunk;
  let a = load_x_NS(at);
  let b = load_x_NS(at + chunks);
  store_x_NS(at, a * cosine - b * sine);
  store_x_NS(at + chunks, b * cosine + a * sine);
}
