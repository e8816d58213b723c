// matmul.NN.bias.halves for {M:37,N:132,K:200}
enable f16;
struct Dims { M: u32, N: u32, K: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> a: array<vec4h>;
fn load_a(i: u32) -> vec4f { return vec4f(a[i]); }
@group(0) @binding(1) var<storage, read> b: array<vec4h>;
fn load_b(i: u32) -> vec4f { return vec4f(b[i]); }
@group(0) @binding(2) var<storage, read_write> c_MN: array<f16>;
fn load_c_MN(i: u32) -> f32 { return f32(c_MN[i]); }
fn store_c_MN(i: u32, value: f32) { c_MN[i] = as_half1(value); }
@group(0) @binding(3) var<storage, read> bias_N: array<f16>;
fn load_bias_N(i: u32) -> f32 { return f32(bias_N[i]); }
const LARGEST_HALF = 65504.0;
fn as_half1(x: f32) -> f16 { return f16(select(x, x * 0x1p127, abs(x) > LARGEST_HALF)); }
fn as_half4(x: vec4f) -> vec4h { return vec4h(select(x, x * 0x1p127, abs(x) > vec4f(LARGEST_HALF))); }
var<workgroup> aStrip: array<f32, 544>;
var<workgroup> bStrip: array<f32, 544>;

fn finish(m: u32, n: u32, sum: f32) {
  if (m >= dims.M || n >= 132u) { return; }
  let i = m * 132u + n;
  var v = sum;
  v += load_bias_N(n);
  store_c_MN(i, v);
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  let firstRow = group.y * 32u;
  let firstColumn = group.x * 32u;
  let row = local / 8u;
  let column = local % 8u;
  var s0_0 = vec4f();
  var s1_0 = vec4f();
  var s2_0 = vec4f();
  var s3_0 = vec4f();
  for (var k0 = 0u; k0 < 200u; k0 += 16u) {
    {
      let index = local;
      let side = index / 4u;
      let depth = (index % 4u) * 4u;
      var value = vec4f();
      if (firstRow + side < dims.M && k0 + depth < 200u) { value = load_a((firstRow + side) * 50u + (k0 + depth) / 4u); }
      aStrip[(depth) * 34u + side] = value.x;
      aStrip[(depth + 1u) * 34u + side] = value.y;
      aStrip[(depth + 2u) * 34u + side] = value.z;
      aStrip[(depth + 3u) * 34u + side] = value.w;
    }
    {
      let index = local + 64u;
      let side = index / 4u;
      let depth = (index % 4u) * 4u;
      var value = vec4f();
      if (firstRow + side < dims.M && k0 + depth < 200u) { value = load_a((firstRow + side) * 50u + (k0 + depth) / 4u); }
      aStrip[(depth) * 34u + side] = value.x;
      aStrip[(depth + 1u) * 34u + side] = value.y;
      aStrip[(depth + 2u) * 34u + side] = value.z;
      aStrip[(depth + 3u) * 34u + side] = value.w;
    }
    {
      let index = local;
      let side = (index % 8u) * 4u;
      let depth = index / 8u;
      var value = vec4f();
      if (firstColumn + side < 132u && k0 + depth < 200u) { value = load_b((k0 + depth) * 33u + (firstColumn + side) / 4u); }
      bStrip[depth * 34u + side] = value.x;
      bStrip[depth * 34u + side + 1u] = value.y;
      bStrip[depth * 34u + side + 2u] = value.z;
      bStrip[depth * 34u + side + 3u] = value.w;
    }
    {
      let index = local + 64u;
      let side = (index % 8u) * 4u;
      let depth = index / 8u;
      var value = vec4f();
      if (firstColumn + side < 132u && k0 + depth < 200u) { value = load_b((k0 + depth) * 33u + (firstColumn + side) / 4u); }
      bStrip[depth * 34u + side] = value.x;
      bStrip[depth * 34u + side + 1u] = value.y;
      bStrip[depth * 34u + side + 2u] = value.z;
      bStrip[depth * 34u + side + 3u] = value.w;
    }
    workgroupBarrier();
    {
      let a0 = aStrip[row]; let a1 = aStrip[row + 8u]; let a2 = aStrip[row + 16u]; let a3 = aStrip[row + 24u];
      let b0 = vec4f(bStrip[column], bStrip[column + 8u], bStrip[column + 16u], bStrip[column + 24u]);
      s0_0 += a0 * b0; s1_0 += a1 * b0; s2_0 += a2 * b0; s3_0 += a3 * b0;
    }
    {
      let a0 = aStrip[row + 34u]; let a1 = aStrip[row + 42u]; let a2 = aStrip[row + 50u]; let a3 = aStrip[row + 58u];
      let b0 = vec4f(bStrip[column + 34u], bStrip[column + 42u], bStrip[column + 50u], bStrip[column + 58u]);
      s0_0 += a0 * b0; s1_0 += a1 * b0; s2_0 += a2 * b0; s3_0 += a3 * b0;
    }
    {
      let a0 = aStrip[row + 68u]; let a1 = aStrip[row + 76u]; let a2 = aStrip[row + 84u]; let a3 = aStrip[row + 92u];
      let b0 = vec4f(bStrip[column + 68u], bStrip[column + 76u], bStrip[column + 84u], bStrip[column + 92u]);
      s0_0 += a0 * b0; s1_0 += a1 * b0; s2_0 += a2 * b0; s3_0 += a3 * b0;
    }
    {
      let a0 = aStrip[row + 102u]; let a1 = aStrip[row + 110u]; let a2 = aStrip[row + 118u]; let a3 = aStrip[row + 126u];
      let b0 = vec4f(bStrip[column + 102u], bStrip[column + 110u], bStrip[column + 118u], bStrip[column + 126u]);
      s0_0 += a0 * b0; s1_0 += a1 * b0; s2_0 += a2 * b0; s3_0 += a3 * b0;
    }
    {
      let a0 = aStrip[row + 136u]; let a1 = aStrip[row + 144u]; let a2 = aStrip[row + 152u]; let a3 = aStrip[row + 160u];
      let b0 = vec4f(bStrip[column + 136u], bStrip[column + 144u], bStrip[column + 152u], bStrip[column + 160u]);
      s0_0 += a0 * b0; s1_0 += a1 * b0; s2_0 += a2 * b0; s3_0 += a3 * b0;
    }
    {
      let a0 = aStrip[row + 170u]; let a1 = aStrip[row + 178u]; let a2 = aStrip[row + 186u]; let a3 = aStrip[row + 194u];
      let b0 = vec4f(bStrip[column + 170u], bStrip[column + 178u], bStrip[column + 186u], bStrip[column + 194u]);
      s0_0 += a0 * b0; s1_0 += a1 * b0; s2_0 += a2 * b0; s3_0 += a3 * b0;
    }
    {
      let a0 = aStrip[row + 204u]; let a1 = aStrip[row + 212u]; let a2 = aStrip[row + 220u]; let a3 = aStrip[row + 228u];
      let b0 = vec4f(bStrip[column + 204u], bStrip[column + 212u], bStrip[column + 220u], bStrip[column + 228u]);
      s0_0 += a0 * b0; s1_0 += a1 * b0; s2_0 += a2 * b0; s3_0 += a3 * b0;
    }
    {
      let a0 = aStrip[row + 238u]; let a1 = aStrip[row + 246u]; let a2 = aStrip[row + 254u]; let a3 = aStrip[row + 262u];
      let b0 = vec4f(bStrip[column + 238u], bStrip[column + 246u], bStrip[column + 254u], bStrip[column + 262u]);
      s0_0 += a0 * b0; s1_0 += a1 * b0; s2_0 += a2 * b0; s3_0 += a3 * b0;
    }
    {
      let a0 = aStrip[row + 272u]; let a1 = aStrip[row + 280u]; let a2 = aStrip[row + 288u]; let a3 = aStrip[row + 296u];
      let b0 = vec4f(bStrip[column + 272u], bStrip[column + 280u], bStrip[column + 288u], bStrip[column + 296u]);
      s0_0 += a0 * b0; s1_0 += a1 * b0; s2_0 += a2 * b0; s3_0 += a3 * b0;
    }
    {
      let a0 = aStrip[row + 306u]; let a1 = aStrip[row + 314u]; let a2 = aStrip[row + 322u]; let a3 = aStrip[row + 330u];
      let b0 = vec4f(bStrip[column + 306u], bStrip[column + 314u], bStrip[column + 322u], bStrip[column + 330u]);
      s0_0 += a0 * b0; s1_0 += a1 * b0; s2_0 += a2 * b0; s3_0 += a3 * b0;
    }
    {
      let a0 = aStrip[row + 340u]; let a1 = aStrip[row + 348u]; let a2 = aStrip[row + 356u]; let a3 = aStrip[row + 364u];
      let b0 = vec4f(bStrip[column + 340u], bStrip[column + 348u], bStrip[column + 356u], bStrip[column + 364u]);
      s0_0 += a0 * b0; s1_0 += a1 * b0; s2_0 += a2 * b0; s3_0 += a3 * b0;
    }
    {
      let a0 = aStrip[row + 374u]; let a1 = aStrip[row + 382u]; let a2 = aStrip[row + 390u]; let a3 = aStrip[row + 398u];
      let b0 = vec4f(bStrip[column + 374u], bStrip[column + 382u], bStrip[column + 390u], bStrip[column + 398u]);
      s0_0 += a0 * b0; s1_0 += a1 * b0; s2_0 += a2 * b0; s3_0 += a3 * b0;
    }
    {
      let a0 = aStrip[row + 408u]; let a1 = aStrip[row + 416u]; let a2 = aStrip[row + 424u]; let a3 = aStrip[row + 432u];
      let b0 = vec4f(bStrip[column + 408u], bStrip[column + 416u], bStrip[column + 424u], bStrip[column + 432u]);
      s0_0 += a0 * b0; s1_0 += a1 * b0; s2_0 += a2 * b0; s3_0 += a3 * b0;
    }
    {
      let a0 = aStrip[row + 442u]; let a1 = aStrip[row + 450u]; let a2 = aStrip[row + 458u]; let a3 = aStrip[row + 466u];
      let b0 = vec4f(bStrip[column + 442u], bStrip[column + 450u], bStrip[column + 458u], bStrip[column + 466u]);
      s0_0 += a0 * b0; s1_0 += a1 * b0; s2_0 += a2 * b0; s3_0 += a3 * b0;
    }
    {
      let a0 = aStrip[row + 476u]; let a1 = aStrip[row + 484u]; let a2 = aStrip[row + 492u]; let a3 = aStrip[row + 500u];
      let b0 = vec4f(bStrip[column + 476u], bStrip[column + 484u], bStrip[column + 492u], bStrip[column + 500u]);
      s0_0 += a0 * b0; s1_0 += a1 * b0; s2_0 += a2 * b0; s3_0 += a3 * b0;
    }
    {
      let a0 = aStrip[row + 510u]; let a1 = aStrip[row + 518u]; let a2 = aStrip[row + 526u]; let a3 = aStrip[row + 534u];
      let b0 = vec4f(bStrip[column + 510u], bStrip[column + 518u], bStrip[column + 526u], bStrip[column + 534u]);
      s0_0 += a0 * b0; s1_0 += a1 * b0; s2_0 += a2 * b0; s3_0 += a3 * b0;
    }
    workgroupBarrier();
  }
  for (var j = 0u; j < 4u; j++) {
    let n = firstColumn + column + j * 8u;
    finish(firstRow + row, n, s0_0[j]);
    finish(firstRow + row + 8u, n, s1_0[j]);
    finish(firstRow + row + 16u, n, s2_0[j]);
    finish(firstRow + row + 24u, n, s3_0[j]);
  }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
