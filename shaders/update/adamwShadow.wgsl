// AdamW that leaves each new value in a shadow too, which the products read: halves, where the values are float32 masters.
struct Dims {
  offset: u32, count: u32, gradient_offset: u32, moment_offset: u32,
  from0: u32, to0: u32, from1: u32, to1: u32, from2: u32, to2: u32, from3: u32, to3: u32,
  shadow_offset: u32,
}
@group(0) @binding(5) var<storage, read_write> shadow: array<Lane>;
fn leave(index: u32, value: Lane) { shadow[dims.shadow_offset / WIDTH + index] = value; }
