// The losses of the rows of a window become that of its pair, in the window's first row:
//   −log σ(margin),   margin = β·Σ_r side[r]·(loss[r + T/2] − loss[r]) over the first half's rows,
// with side 1 in the chosen text, which begins at the window's first row, and −1 in the rejected one; weight[r] is
// β·σ(−margin)·side[r] in the first half, and 0 in the second.

fn side_of(i: u32) -> f32 { return select(-1.0, 1.0, load_first_BT(i) == 0u); }

fn row(b: u32, lane: u32) {
  if (b >= dims.B) { return; }
  let half = dims.T / 2u;
  let start = b * dims.T;
  var own = 0.0;
  for (var r = lane; r < half; r += TEAM) {
    let i = start + r;
    own += side_of(i) * (load_loss_BT(i + half) - load_loss_BT(i));
  }
  let margin = dims.beta * team_total(lane, own);
  let part = dims.beta / (1.0 + select(exp(margin), 3.4e38, margin > 88.0));
  for (var r = lane; r < half; r += TEAM) {
    let i = start + r;
    store_weight_BT(i, part * side_of(i));
    store_weight_BT(i + half, 0.0);
    store_loss_BT(i, 0.0);
    store_loss_BT(i + half, 0.0);
  }
  if (lane == 0u) { store_loss_BT(start, max(0.0, -margin) + log_of_one_and(exp(-abs(margin)))); }
}
