// matmul.TN.accumulate.ofWider.gpu for {M:37,N:132,K:200,P:41}
struct Dims { M: u32, N: u32, K: u32, P: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> a: array<f32>;
fn load_a(i: u32) -> f32 { return a[i]; }
@group(0) @binding(1) var<storage, read> b: array<vec4f>;
fn load_b(i: u32) -> vec4f { return b[i]; }
@group(0) @binding(2) var<storage, read_write> c_MN: array<vec4f>;
fn load_c_MN(i: u32) -> vec4f { return c_MN[i]; }
fn store_c_MN(i: u32, value: vec4f) { c_MN[i] = value; }
var<workgroup> aStrip: array<vec4f, 144>;
var<workgroup> bStrip: array<vec4f, 144>;

fn finish(m: u32, n: u32, sum: vec4f) {
  if (m >= 37u || n >= 132u) { return; }
  let i = m * 33u + n / 4u;
  var v = sum;
  store_c_MN(i, load_c_MN(i) + v);
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  let firstRow = group.y * 32u;
  let firstColumn = group.x * 32u;
  let row = local / 8u % 4u + 4u * (local / 32u % 2u);
  let column = local % 8u + 8u * (local / 32u % 1u);
  let a0Index = local;
  let a0Quad = a0Index % 8u;
  let a0Step = a0Index / 8u % 16u;
  let a1Index = local + 64u;
  let a1Quad = a1Index % 8u;
  let a1Step = a1Index / 8u % 16u;
  let b0Index = local;
  let b0Quad = b0Index % 8u;
  let b0Step = b0Index / 8u % 16u;
  let b1Index = local + 64u;
  let b1Quad = b1Index % 8u;
  let b1Step = b1Index / 8u % 16u;
  var s0_0 = vec4f();
  var s1_0 = vec4f();
  var s2_0 = vec4f();
  var s3_0 = vec4f();
  var a0_0 = vec4f();
  var a1_0 = vec4f();
  var b0_0 = vec4f();
  var b1_0 = vec4f();
  if (0u + a0Step < dims.K) {
    a0_0 = vec4f(load_a((0u + a0Step) * 41u + min(firstRow + 4u * a0Quad, 37u - 1u)), load_a((0u + a0Step) * 41u + min(firstRow + 4u * a0Quad + 1u, 37u - 1u)), load_a((0u + a0Step) * 41u + min(firstRow + 4u * a0Quad + 2u, 37u - 1u)), load_a((0u + a0Step) * 41u + min(firstRow + 4u * a0Quad + 3u, 37u - 1u)));
  }
  if (0u + a1Step < dims.K) {
    a1_0 = vec4f(load_a((0u + a1Step) * 41u + min(firstRow + 4u * a1Quad, 37u - 1u)), load_a((0u + a1Step) * 41u + min(firstRow + 4u * a1Quad + 1u, 37u - 1u)), load_a((0u + a1Step) * 41u + min(firstRow + 4u * a1Quad + 2u, 37u - 1u)), load_a((0u + a1Step) * 41u + min(firstRow + 4u * a1Quad + 3u, 37u - 1u)));
  }
  if (0u + b0Step < dims.K) {
    b0_0 = load_b((0u + b0Step) * 33u + min(firstColumn / 4u + b0Quad, 32u));
  }
  if (0u + b1Step < dims.K) {
    b1_0 = load_b((0u + b1Step) * 33u + min(firstColumn / 4u + b1Quad, 32u));
  }
  for (var k0 = 0u; k0 < dims.K; k0 += 16u) {
    aStrip[a0Step * 9u + a0Quad] = a0_0;
    aStrip[a1Step * 9u + a1Quad] = a1_0;
    bStrip[b0Step * 9u + b0Quad] = b0_0;
    bStrip[b1Step * 9u + b1Quad] = b1_0;
    if (k0 + 16u < dims.K) {
      a0_0 = vec4f();
      a1_0 = vec4f();
      b0_0 = vec4f();
      b1_0 = vec4f();
      if (k0 + 16u + a0Step < dims.K) {
        a0_0 = vec4f(load_a((k0 + 16u + a0Step) * 41u + min(firstRow + 4u * a0Quad, 37u - 1u)), load_a((k0 + 16u + a0Step) * 41u + min(firstRow + 4u * a0Quad + 1u, 37u - 1u)), load_a((k0 + 16u + a0Step) * 41u + min(firstRow + 4u * a0Quad + 2u, 37u - 1u)), load_a((k0 + 16u + a0Step) * 41u + min(firstRow + 4u * a0Quad + 3u, 37u - 1u)));
      }
      if (k0 + 16u + a1Step < dims.K) {
        a1_0 = vec4f(load_a((k0 + 16u + a1Step) * 41u + min(firstRow + 4u * a1Quad, 37u - 1u)), load_a((k0 + 16u + a1Step) * 41u + min(firstRow + 4u * a1Quad + 1u, 37u - 1u)), load_a((k0 + 16u + a1Step) * 41u + min(firstRow + 4u * a1Quad + 2u, 37u - 1u)), load_a((k0 + 16u + a1Step) * 41u + min(firstRow + 4u * a1Quad + 3u, 37u - 1u)));
      }
      if (k0 + 16u + b0Step < dims.K) {
        b0_0 = load_b((k0 + 16u + b0Step) * 33u + min(firstColumn / 4u + b0Quad, 32u));
      }
      if (k0 + 16u + b1Step < dims.K) {
        b1_0 = load_b((k0 + 16u + b1Step) * 33u + min(firstColumn / 4u + b1Quad, 32u));
      }
    }
    workgroupBarrier();
    {
      let a0 = aStrip[row];
      let b0 = bStrip[column];
      s0_0 += a0.x * b0;
      s1_0 += a0.y * b0;
      s2_0 += a0.z * b0;
      s3_0 += a0.w * b0;
    }
    {
      let a0 = aStrip[row + 9u];
      let b0 = bStrip[column + 9u];
      s0_0 += a0.x * b0;
      s1_0 += a0.y * b0;
      s2_0 += a0.z * b0;
      s3_0 += a0.w * b0;
    }
    {
      let a0 = aStrip[row + 18u];
      let b0 = bStrip[column + 18u];
      s0_0 += a0.x * b0;
      s1_0 += a0.y * b0;
      s2_0 += a0.z * b0;
      s3_0 += a0.w * b0;
    }
    {
      let a0 = aStrip[row + 27u];
      let b0 = bStrip[column + 27u];
      s0_0 += a0.x * b0;
      s1_0 += a0.y * b0;
      s2_0 += a0.z * b0;
      s3_0 += a0.w * b0;
    }
    {
      let a0 = aStrip[row + 36u];
      let b0 = bStrip[column + 36u];
      s0_0 += a0.x * b0;
      s1_0 += a0.y * b0;
      s2_0 += a0.z * b0;
      s3_0 += a0.w * b0;
    }
    {
      let a0 = aStrip[row + 45u];
      let b0 = bStrip[column + 45u];
      s0_0 += a0.x * b0;
      s1_0 += a0.y * b0;
      s2_0 += a0.z * b0;
      s3_0 += a0.w * b0;
    }
    {
      let a0 = aStrip[row + 54u];
      let b0 = bStrip[column + 54u];
      s0_0 += a0.x * b0;
      s1_0 += a0.y * b0;
      s2_0 += a0.z * b0;
      s3_0 += a0.w * b0;
    }
    {
      let a0 = aStrip[row + 63u];
      let b0 = bStrip[column + 63u];
      s0_0 += a0.x * b0;
      s1_0 += a0.y * b0;
      s2_0 += a0.z * b0;
      s3_0 += a0.w * b0;
    }
    {
      let a0 = aStrip[row + 72u];
      let b0 = bStrip[column + 72u];
      s0_0 += a0.x * b0;
      s1_0 += a0.y * b0;
      s2_0 += a0.z * b0;
      s3_0 += a0.w * b0;
    }
    {
      let a0 = aStrip[row + 81u];
      let b0 = bStrip[column + 81u];
      s0_0 += a0.x * b0;
      s1_0 += a0.y * b0;
      s2_0 += a0.z * b0;
      s3_0 += a0.w * b0;
    }
    {
      let a0 = aStrip[row + 90u];
      let b0 = bStrip[column + 90u];
      s0_0 += a0.x * b0;
      s1_0 += a0.y * b0;
      s2_0 += a0.z * b0;
      s3_0 += a0.w * b0;
    }
    {
      let a0 = aStrip[row + 99u];
      let b0 = bStrip[column + 99u];
      s0_0 += a0.x * b0;
      s1_0 += a0.y * b0;
      s2_0 += a0.z * b0;
      s3_0 += a0.w * b0;
    }
    {
      let a0 = aStrip[row + 108u];
      let b0 = bStrip[column + 108u];
      s0_0 += a0.x * b0;
      s1_0 += a0.y * b0;
      s2_0 += a0.z * b0;
      s3_0 += a0.w * b0;
    }
    {
      let a0 = aStrip[row + 117u];
      let b0 = bStrip[column + 117u];
      s0_0 += a0.x * b0;
      s1_0 += a0.y * b0;
      s2_0 += a0.z * b0;
      s3_0 += a0.w * b0;
    }
    {
      let a0 = aStrip[row + 126u];
      let b0 = bStrip[column + 126u];
      s0_0 += a0.x * b0;
      s1_0 += a0.y * b0;
      s2_0 += a0.z * b0;
      s3_0 += a0.w * b0;
    }
    {
      let a0 = aStrip[row + 135u];
      let b0 = bStrip[column + 135u];
      s0_0 += a0.x * b0;
      s1_0 += a0.y * b0;
      s2_0 += a0.z * b0;
      s3_0 += a0.w * b0;
    }
    workgroupBarrier();
  }
  finish(firstRow + 4u * row, firstColumn + 4u * column, s0_0);
  finish(firstRow + 4u * row + 1u, firstColumn + 4u * column, s1_0);
  finish(firstRow + 4u * row + 2u, firstColumn + 4u * column, s2_0);
  finish(firstRow + 4u * row + 3u, firstColumn + 4u * column, s3_0);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
