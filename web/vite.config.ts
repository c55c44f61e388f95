import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [svelte()],
  build: {
    outDir: "../src/firstdiff/server/static",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
  },
  server: {
    port: 5173,
    proxy: { "/api": { target: "http://127.0.0.1:8585", changeOrigin: true, headers: { origin: "http://127.0.0.1:8585" } } },
  },
});
