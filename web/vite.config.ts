/** Builds the pages into dist/web. No inline script or style leaves here: the server's Content-Security-Policy forbids both. */
import { fileURLToPath } from 'node:url';
import { defineConfig, type Plugin } from 'vite';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** What the head of every page has; a page's own file has its title, its own styles and its script. */
const HEAD = `
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <link rel="icon" href="./icon.svg" type="image/svg+xml">
    <link rel="stylesheet" href="./style.css">`;

/** Before anything else of the build reads the page, so that the icon and the styles are found. */
const sharedHead: Plugin = {
  name: 'shared-head',
  transformIndexHtml: { order: 'pre', handler: (html) => html.replace('<head>', `<head>${HEAD}`) },
};

export default defineConfig({
  root: here('.'),
  plugins: [sharedHead],
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
