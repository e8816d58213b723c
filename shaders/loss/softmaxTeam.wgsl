// For GPUs: a row's largest logit and Σ exp(logit − largest) in one walk by the TEAM invocations of a workgroup. Each keeps
// both of the lanes that it has seen (online softmax: Milakov & Gimelshein 2018), four loads at a time: a vocabulary is
// seldom a multiple of four, so a lane is one float, and there are only as many rows as logits are kept.
fn softmax_of(n: u32, lane: u32) -> Softmax {
  let chunks = dims.V / WIDTH;
  let row = n * chunks;
  var most = Lane() - 3.4e38;
  var sum = Lane();
  var v = lane;
  for (; v + 3u * TEAM < chunks; v += 4u * TEAM) {
    let a = load_logits_NV(row + v);
    let b = load_logits_NV(row + v + TEAM);
    let c = load_logits_NV(row + v + 2u * TEAM);
    let d = load_logits_NV(row + v + 3u * TEAM);
    let before = most;
    most = max(max(before, max(a, b)), max(c, d));
    sum = sum * exp(before - most) + ((exp(a - most) + exp(b - most)) + (exp(c - most) + exp(d - most)));
  }
  for (; v < chunks; v += TEAM) {
    let a = load_logits_NV(row + v);
    let before = most;
    most = max(before, a);
    sum = sum * exp(before - most) + exp(a - most);
  }
  let row_most = team_largest(lane, largest(most));
  return Softmax(row_most, team_total(lane, total(sum * exp(most - row_most))));
}
