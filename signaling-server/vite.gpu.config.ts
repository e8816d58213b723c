/** Builds dist/gpu: `shoal bench gpu` with all it needs, for Linux, to be copied to a machine without a network. */
import { cpSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { defineConfig, type Plugin } from 'vite';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** Dawn is a library of machine code, which no bundler takes in. */
const withDawn = (): Plugin => ({
  name: 'with-dawn',
  closeBundle() {
    for (const file of ['package.json', 'index.js', 'dist/linux-x64', 'dist/linux-arm64'])
      cpSync(here(`../node_modules/webgpu/${file}`), here(`../dist/gpu/node_modules/webgpu/${file}`), {
        recursive: true,
      });
  },
});

export default defineConfig({
  root: here('.'),
  plugins: [withDawn()],
  ssr: { noExternal: true, external: ['webgpu'] },
  build: {
    ssr: here('bench/gpuFigures.ts'),
    outDir: here('../dist/gpu'),
    emptyOutDir: true,
    target: 'node20',
    copyPublicDir: false,
    rolldownOptions: { output: { entryFileNames: '[name].mjs' } },
  },
});
