// Bundles the extension into out/extension.js; with --tests, every test into out/test/ instead.

import { copyFileSync, readdirSync, rmSync } from "node:fs";
import { build } from "esbuild";

const common = { bundle: true, platform: "node", target: "node20", format: "cjs", logLevel: "warning" };

if (process.argv.includes("--tests")) {
  rmSync("out/test", { recursive: true, force: true });
  const tests = readdirSync("test", { recursive: true }).filter((name) => name.endsWith(".test.ts"));
  const entryPoints = tests.map((name) => `test/${name}`);
  await build({
    ...common,
    entryPoints,
    outdir: "out/test",
    outbase: "test",
    packages: "external",
    sourcemap: "inline",
  });
} else {
  await build({
    ...common,
    entryPoints: ["src/extension.ts"],
    outfile: "out/extension.js",
    external: ["vscode"],
    minify: true,
  });
  copyFileSync("../../LICENSE", "LICENSE"); // the package carries its own
}
