import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

/** The page once more, as one script and one style that go into a shared file. */
export default defineConfig({
  plugins: [svelte()],
  publicDir: false,
  // a file has no server to run models with, and no room for the runtime
  resolve: { alias: [{ find: /^\.\/pages\/BrowserInference\.svelte$/, replacement: `${import.meta.dirname}/src/shared/NoInference.svelte` }] },
  build: {
    outDir: "../src/firstdiff/server/static/shared",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    rolldownOptions: {
      input: "src/shared/main.ts",
      output: { format: "iife", codeSplitting: false, entryFileNames: "page.js", assetFileNames: "page[extname]" },
    },
  },
});
