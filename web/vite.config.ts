/** Builds the pages into dist/web. No inline script or style leaves here: the server's Content-Security-Policy forbids both. */
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  root: here('.'),
  resolve: {
    // Its main entry expects Node's `global`, `Buffer` and `process`; the bundle it ships needs nothing.
    alias: { 'simple-peer': 'simple-peer/simplepeer.min.js' },
  },
  worker: { format: 'es' },
  build: {
    outDir: here('../dist/web'),
    emptyOutDir: true,
    target: 'es2023',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      // One line a page.
      input: {
        donor: here('index.html'),
        operator: here('operator.html'),
        status: here('status.html'),
        bench: here('bench.html'),
      },
    },
  },
  // `npx vite --config web/vite.config.ts` beside a running `shoal serve`.
  server: {
    fs: { allow: [here('..')] },
    proxy: { '/api': { target: 'http://localhost:8080', ws: true } },
  },
});
