import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  // relative addresses, so that the pages work in any folder of any host
  base: "./",
  resolve: { alias: { firstdiff: here("../../../clients/js/src/index.ts") } },
  server: { fs: { allow: [here("../../..")] } },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1000,
    rolldownOptions: { input: { index: here("index.html"), debug: here("debug.html") } },
  },
});
