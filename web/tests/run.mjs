// Compiles tests/*.test.ts and runs them with Node's own test runner.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "dure-pages-"));
try {
  await build({
    entryPoints: readdirSync(here).filter((name) => name.endsWith(".test.ts")).map((name) => join(here, name)),
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node18",
    jsx: "automatic",
    jsxImportSource: "preact",
    logLevel: "warning",
  });
  const files = readdirSync(folder).map((name) => join(folder, name));
  process.exitCode = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(folder, { recursive: true });
}
