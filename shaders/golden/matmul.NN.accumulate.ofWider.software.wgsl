// matmul.NN.accumulate.ofWider.software for {M:37,N:132,K:200,P:204}
enable subgroups;
struct Dims { M: u32, N: u32, K: u32, P: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> a: array<vec4f>;
fn load_a(i: u32) -> vec4f { return a[i]; }
@group(0) @binding(1) var<storage, read> b: array<vec4f>;
fn load_b(i: u32) -> vec4f { return b[i]; }
@group(0) @binding(2) var<storage, read_write> c_MN: array<vec4f>;
fn load_c_MN(i: u32) -> vec4f { return c_MN[i]; }
fn store_c_MN(i: u32, value: vec4f) { c_MN[i] = value; }
var<private> panel: array<vec4f, 224>;

fn run(group: vec3u, groups: vec3u, lane: u32) {
  let column = group.x * 32u + lane * 4u;
  let run = (dims.M + groups.y - 1u) / groups.y;
  let first = group.y * run;
  let end = min(first + run, dims.M);
  let rowOfA = dims.P / 4u;
  let rowOfB = dims.N / 4u;
  let rowOfC = dims.N / 4u;
  for (var k0 = 0u; k0 < dims.K; k0 += 112u) {
    for (var i = 0u; i < 112u; i++) {
      let k = k0 + i / 16u * 16u + (lane ^ (i / 4u % 4u)) * 4u + i % 4u;
      let row = k * rowOfB + column / 4u;
      let value0 = select(vec4f(), load_b(row), k < dims.K);
      panel[(i) * 2u] = value0;
      let value1 = select(vec4f(), load_b(row + 4u), k < dims.K);
      panel[(i) * 2u + 1u] = value1;
    }
    let at0 = min(k0 / 4u + lane, dims.K / 4u - 1u);
    let at1 = min(k0 / 4u + 4u + lane, dims.K / 4u - 1u);
    let at2 = min(k0 / 4u + 8u + lane, dims.K / 4u - 1u);
    let at3 = min(k0 / 4u + 12u + lane, dims.K / 4u - 1u);
    let at4 = min(k0 / 4u + 16u + lane, dims.K / 4u - 1u);
    let at5 = min(k0 / 4u + 20u + lane, dims.K / 4u - 1u);
    let at6 = min(k0 / 4u + 24u + lane, dims.K / 4u - 1u);
    for (var m = first; m < end; m++) {
      let row = m * rowOfA;
      let a0_0 = load_a(row + at0);
      let a1_0 = load_a(row + at1);
      let a2_0 = load_a(row + at2);
      let a3_0 = load_a(row + at3);
      let a4_0 = load_a(row + at4);
      let a5_0 = load_a(row + at5);
      let a6_0 = load_a(row + at6);
      let a0_1 = quadSwapX(a0_0);
      let a0_2 = quadSwapY(a0_0);
      let a0_3 = quadSwapDiagonal(a0_0);
      let a1_1 = quadSwapX(a1_0);
      let a1_2 = quadSwapY(a1_0);
      let a1_3 = quadSwapDiagonal(a1_0);
      let a2_1 = quadSwapX(a2_0);
      let a2_2 = quadSwapY(a2_0);
      let a2_3 = quadSwapDiagonal(a2_0);
      let a3_1 = quadSwapX(a3_0);
      let a3_2 = quadSwapY(a3_0);
      let a3_3 = quadSwapDiagonal(a3_0);
      let a4_1 = quadSwapX(a4_0);
      let a4_2 = quadSwapY(a4_0);
      let a4_3 = quadSwapDiagonal(a4_0);
      let a5_1 = quadSwapX(a5_0);
      let a5_2 = quadSwapY(a5_0);
      let a5_3 = quadSwapDiagonal(a5_0);
      let a6_1 = quadSwapX(a6_0);
      let a6_2 = quadSwapY(a6_0);
      let a6_3 = quadSwapDiagonal(a6_0);
      var s0 = vec4f();
      var s1 = vec4f();
      s0 += a0_0.x * panel[0]; s1 += a0_0.x * panel[1];
      s0 += a0_0.y * panel[2]; s1 += a0_0.y * panel[3];
      s0 += a0_0.z * panel[4]; s1 += a0_0.z * panel[5];
      s0 += a0_0.w * panel[6]; s1 += a0_0.w * panel[7];
      s0 += a0_1.x * panel[8]; s1 += a0_1.x * panel[9];
      s0 += a0_1.y * panel[10]; s1 += a0_1.y * panel[11];
      s0 += a0_1.z * panel[12]; s1 += a0_1.z * panel[13];
      s0 += a0_1.w * panel[14]; s1 += a0_1.w * panel[15];
      s0 += a0_2.x * panel[16]; s1 += a0_2.x * panel[17];
      s0 += a0_2.y * panel[18]; s1 += a0_2.y * panel[19];
      s0 += a0_2.z * panel[20]; s1 += a0_2.z * panel[21];
      s0 += a0_2.w * panel[22]; s1 += a0_2.w * panel[23];
      s0 += a0_3.x * panel[24]; s1 += a0_3.x * panel[25];
      s0 += a0_3.y * panel[26]; s1 += a0_3.y * panel[27];
      s0 += a0_3.z * panel[28]; s1 += a0_3.z * panel[29];
      s0 += a0_3.w * panel[30]; s1 += a0_3.w * panel[31];
      s0 += a1_0.x * panel[32]; s1 += a1_0.x * panel[33];
      s0 += a1_0.y * panel[34]; s1 += a1_0.y * panel[35];
      s0 += a1_0.z * panel[36]; s1 += a1_0.z * panel[37];
      s0 += a1_0.w * panel[38]; s1 += a1_0.w * panel[39];
      s0 += a1_1.x * panel[40]; s1 += a1_1.x * panel[41];
      s0 += a1_1.y * panel[42]; s1 += a1_1.y * panel[43];
      s0 += a1_1.z * panel[44]; s1 += a1_1.z * panel[45];
      s0 += a1_1.w * panel[46]; s1 += a1_1.w * panel[47];
      s0 += a1_2.x * panel[48]; s1 += a1_2.x * panel[49];
      s0 += a1_2.y * panel[50]; s1 += a1_2.y * panel[51];
      s0 += a1_2.z * panel[52]; s1 += a1_2.z * panel[53];
      s0 += a1_2.w * panel[54]; s1 += a1_2.w * panel[55];
      s0 += a1_3.x * panel[56]; s1 += a1_3.x * panel[57];
      s0 += a1_3.y * panel[58]; s1 += a1_3.y * panel[59];
      s0 += a1_3.z * panel[60]; s1 += a1_3.z * panel[61];
      s0 += a1_3.w * panel[62]; s1 += a1_3.w * panel[63];
      s0 += a2_0.x * panel[64]; s1 += a2_0.x * panel[65];
      s0 += a2_0.y * panel[66]; s1 += a2_0.y * panel[67];
      s0 += a2_0.z * panel[68]; s1 += a2_0.z * panel[69];
      s0 += a2_0.w * panel[70]; s1 += a2_0.w * panel[71];
      s0 += a2_1.x * panel[72]; s1 += a2_1.x * panel[73];
      s0 += a2_1.y * panel[74]; s1 += a2_1.y * panel[75];
      s0 += a2_1.z * panel[76]; s1 += a2_1.z * panel[77];
      s0 += a2_1.w * panel[78]; s1 += a2_1.w * panel[79];
      s0 += a2_2.x * panel[80]; s1 += a2_2.x * panel[81];
      s0 += a2_2.y * panel[82]; s1 += a2_2.y * panel[83];
      s0 += a2_2.z * panel[84]; s1 += a2_2.z * panel[85];
      s0 += a2_2.w * panel[86]; s1 += a2_2.w * panel[87];
      s0 += a2_3.x * panel[88]; s1 += a2_3.x * panel[89];
      s0 += a2_3.y * panel[90]; s1 += a2_3.y * panel[91];
      s0 += a2_3.z * panel[92]; s1 += a2_3.z * panel[93];
      s0 += a2_3.w * panel[94]; s1 += a2_3.w * panel[95];
      s0 += a3_0.x * panel[96]; s1 += a3_0.x * panel[97];
      s0 += a3_0.y * panel[98]; s1 += a3_0.y * panel[99];
      s0 += a3_0.z * panel[100]; s1 += a3_0.z * panel[101];
      s0 += a3_0.w * panel[102]; s1 += a3_0.w * panel[103];
      s0 += a3_1.x * panel[104]; s1 += a3_1.x * panel[105];
      s0 += a3_1.y * panel[106]; s1 += a3_1.y * panel[107];
      s0 += a3_1.z * panel[108]; s1 += a3_1.z * panel[109];
      s0 += a3_1.w * panel[110]; s1 += a3_1.w * panel[111];
      s0 += a3_2.x * panel[112]; s1 += a3_2.x * panel[113];
      s0 += a3_2.y * panel[114]; s1 += a3_2.y * panel[115];
      s0 += a3_2.z * panel[116]; s1 += a3_2.z * panel[117];
      s0 += a3_2.w * panel[118]; s1 += a3_2.w * panel[119];
      s0 += a3_3.x * panel[120]; s1 += a3_3.x * panel[121];
      s0 += a3_3.y * panel[122]; s1 += a3_3.y * panel[123];
      s0 += a3_3.z * panel[124]; s1 += a3_3.z * panel[125];
      s0 += a3_3.w * panel[126]; s1 += a3_3.w * panel[127];
      s0 += a4_0.x * panel[128]; s1 += a4_0.x * panel[129];
      s0 += a4_0.y * panel[130]; s1 += a4_0.y * panel[131];
      s0 += a4_0.z * panel[132]; s1 += a4_0.z * panel[133];
      s0 += a4_0.w * panel[134]; s1 += a4_0.w * panel[135];
      s0 += a4_1.x * panel[136]; s1 += a4_1.x * panel[137];
      s0 += a4_1.y * panel[138]; s1 += a4_1.y * panel[139];
      s0 += a4_1.z * panel[140]; s1 += a4_1.z * panel[141];
      s0 += a4_1.w * panel[142]; s1 += a4_1.w * panel[143];
      s0 += a4_2.x * panel[144]; s1 += a4_2.x * panel[145];
      s0 += a4_2.y * panel[146]; s1 += a4_2.y * panel[147];
      s0 += a4_2.z * panel[148]; s1 += a4_2.z * panel[149];
      s0 += a4_2.w * panel[150]; s1 += a4_2.w * panel[151];
      s0 += a4_3.x * panel[152]; s1 += a4_3.x * panel[153];
      s0 += a4_3.y * panel[154]; s1 += a4_3.y * panel[155];
      s0 += a4_3.z * panel[156]; s1 += a4_3.z * panel[157];
      s0 += a4_3.w * panel[158]; s1 += a4_3.w * panel[159];
      s0 += a5_0.x * panel[160]; s1 += a5_0.x * panel[161];
      s0 += a5_0.y * panel[162]; s1 += a5_0.y * panel[163];
      s0 += a5_0.z * panel[164]; s1 += a5_0.z * panel[165];
      s0 += a5_0.w * panel[166]; s1 += a5_0.w * panel[167];
      s0 += a5_1.x * panel[168]; s1 += a5_1.x * panel[169];
      s0 += a5_1.y * panel[170]; s1 += a5_1.y * panel[171];
      s0 += a5_1.z * panel[172]; s1 += a5_1.z * panel[173];
      s0 += a5_1.w * panel[174]; s1 += a5_1.w * panel[175];
      s0 += a5_2.x * panel[176]; s1 += a5_2.x * panel[177];
      s0 += a5_2.y * panel[178]; s1 += a5_2.y * panel[179];
      s0 += a5_2.z * panel[180]; s1 += a5_2.z * panel[181];
      s0 += a5_2.w * panel[182]; s1 += a5_2.w * panel[183];
      s0 += a5_3.x * panel[184]; s1 += a5_3.x * panel[185];
      s0 += a5_3.y * panel[186]; s1 += a5_3.y * panel[187];
      s0 += a5_3.z * panel[188]; s1 += a5_3.z * panel[189];
      s0 += a5_3.w * panel[190]; s1 += a5_3.w * panel[191];
      s0 += a6_0.x * panel[192]; s1 += a6_0.x * panel[193];
      s0 += a6_0.y * panel[194]; s1 += a6_0.y * panel[195];
      s0 += a6_0.z * panel[196]; s1 += a6_0.z * panel[197];
      s0 += a6_0.w * panel[198]; s1 += a6_0.w * panel[199];
      s0 += a6_1.x * panel[200]; s1 += a6_1.x * panel[201];
      s0 += a6_1.y * panel[202]; s1 += a6_1.y * panel[203];
      s0 += a6_1.z * panel[204]; s1 += a6_1.z * panel[205];
      s0 += a6_1.w * panel[206]; s1 += a6_1.w * panel[207];
      s0 += a6_2.x * panel[208]; s1 += a6_2.x * panel[209];
      s0 += a6_2.y * panel[210]; s1 += a6_2.y * panel[211];
      s0 += a6_2.z * panel[212]; s1 += a6_2.z * panel[213];
      s0 += a6_2.w * panel[214]; s1 += a6_2.w * panel[215];
      s0 += a6_3.x * panel[216]; s1 += a6_3.x * panel[217];
      s0 += a6_3.y * panel[218]; s1 += a6_3.y * panel[219];
      s0 += a6_3.z * panel[220]; s1 += a6_3.z * panel[221];
      s0 += a6_3.w * panel[222]; s1 += a6_3.w * panel[223];
      let at = m * rowOfC + column / 4u;
      s0 += load_c_MN(at);
      s1 += load_c_MN(at + 4u);
      if (column < dims.N) { store_c_MN(at, s0); }
      if (column + 16u < dims.N) { store_c_MN(at + 4u, s1); }
    }
  }
}

@compute @workgroup_size(4)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
