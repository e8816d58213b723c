// One invocation for each lane of the run's rows of w_QR.

fn item(index: u32) {
  let chunks = dims.R / WIDTH;
  let row = index / chunks;
  if (row >= dims.rows) { return; }
  let column = index % chunks * WIDTH;
  var value = Lane();
  if (row >= dims.before && row < dims.before + dims.width && column >= dims.column && column < dims.column + dims.rank) {
    value = dims.scale * load_b_WR(((row - dims.before) * dims.rank + column - dims.column) / WIDTH);
  }
  store_w_QR((dims.first + row) * chunks + column / WIDTH, value);
}
