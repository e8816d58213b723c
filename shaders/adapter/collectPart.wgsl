// One invocation for each lane of db_WR.

fn item(index: u32) {
  let chunks = dims.rank / WIDTH;
  let row = index / chunks;
  if (row >= dims.width) { return; }
  let i = ((dims.first + row) * dims.R + dims.column) / WIDTH + index % chunks;
  store_db_WR(index, load_db_WR(index) + dims.scale * load_dw_QR(i));
}
