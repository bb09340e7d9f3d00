// Builds a page, or serves it while it is being written.
//   node pages.mjs build PAGE FOLDER     the page of src/PAGE as static files in FOLDER, which is emptied first
//   node pages.mjs dev PAGE              on a port of loopback; API calls go to DURE_SERVER (http://127.0.0.1:8080)
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build, createServer } from "vite";

const [command, page, folder] = process.argv.slice(2);
const here = fileURLToPath(new URL(".", import.meta.url));

// Given here, not in vite.config.ts, of which Vite would write a compiled copy into the source.
const config = {
  configFile: false,
  root: resolve(here, "src", page ?? ""),
  // Relative, so that a page also works below a proxy's path.
  base: "./",
  publicDir: false,
  cacheDir: resolve(here, "node_modules/.vite"),
  logLevel: "warn",
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
};

if (command === "build" && page && folder) {
  await build({
    ...config,
    build: {
      outDir: resolve(folder),
      emptyOutDir: true,
      target: "es2021",
      // Inlined files would be data: addresses, which the server's content security policy forbids.
      assetsInlineLimit: 0,
      modulePreload: false,
      reportCompressedSize: false,
    },
  });
} else if (command === "dev" && page) {
  const target = process.env.DURE_SERVER ?? "http://127.0.0.1:8080";
  const server = await createServer({
    ...config,
    logLevel: "info",
    server: { host: "127.0.0.1", proxy: Object.fromEntries(["/api", "/v1", "/v2"].map((path) => [path, target])) },
  });
  await server.listen();
  server.printUrls();
} else {
  console.error("usage: node pages.mjs build PAGE FOLDER | dev PAGE");
  process.exit(2);
}
