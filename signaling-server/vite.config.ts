/** Builds the command into dist/server/cli.js for Node. What comes from npm stays outside, in node_modules. */
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  root: here('.'),
  ssr: { external: true },
  build: {
    ssr: here('commands/cli.ts'),
    outDir: here('../dist/server'),
    emptyOutDir: true,
    target: 'node20',
    copyPublicDir: false,
    sourcemap: true,
  },
});
