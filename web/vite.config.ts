/** Builds the pages into dist/web. No inline script or style leaves here: the server's Content-Security-Policy forbids both. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, gzipSync } from 'node:zlib';
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

const TEXT = /\.(js|css|html|svg)$/;
const WORTH_BYTES = 1_024;

/** Beside each text the same compressed, which the server hands to browsers that take it. */
const compressed: Plugin = {
  name: 'compressed',
  writeBundle: ({ dir = '' }, bundle) => {
    for (const name of Object.keys(bundle).filter((each) => TEXT.test(each))) {
      const path = join(dir, name);
      const bytes = readFileSync(path);
      if (bytes.length < WORTH_BYTES) continue;
      writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }));
      writeFileSync(`${path}.br`, brotliCompressSync(bytes));
    }
  },
};

export default defineConfig({
  root: here('.'),
  plugins: [sharedHead, compressed],
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
      checks: { pluginTimings: false },
      // One line a page.
      input: {
        donor: here('index.html'),
        operator: here('operator.html'),
        status: here('status.html'),
        talk: here('talk.html'),
        embed: here('embed.html'),
        bench: here('bench.html'),
      },
    },
  },
  // `npx vite --config web/vite.config.ts` beside a running `shoal serve`.
  server: {
    fs: { allow: [here('..')] },
    proxy: { '/api': { target: 'http://localhost:8080', ws: true }, '/talk/': 'http://localhost:8080' },
  },
});
