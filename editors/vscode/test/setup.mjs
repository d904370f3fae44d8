// Lays out a real VS Code (code-server) and finds a browser for the editor tests; prints {code, chromium} as JSON.
// Done once: everything lies under .cache/ of the checkout, and a finished layout is only checked again.
// Knows nothing of the extension. Exits with 3 and a sentence on stderr where this machine cannot have it.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const VERSION = "4.99.3"; // VS Code 1.99.3
const NODE = "20"; // the only major version that this code-server runs on
const NODE_GYP = "11.5.0";
const MODULES = ["@vscode/spdlog", "native-watchdog", "@parcel/watcher", "kerberos", "node-pty"];
const PACKAGES = [
  "chromium",
  "ripgrep",
  "libkrb5-dev",
  "libsecret-1-dev",
  "fonts-dejavu-core",
  "g++",
  "make",
  "pkg-config",
];
const checkout = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
const root = join(checkout, ".cache", `code-server-${VERSION}`);
const server = join(root, "node_modules/code-server");
const vscode = join(server, "lib/vscode");
const finished = join(root, "finished");

main();

function main() {
  const missing = unmet();
  if (missing) {
    console.error(missing);
    process.exit(3);
  }
  installSystemPackages();
  if (!existsSync(finished)) installCodeServer();
  console.log(JSON.stringify({ code: join(server, "out/node/entry.js"), chromium: chromium() }));
}

function unmet() {
  if (process.platform !== "linux") return "the VS Code tests were only written for Linux";
  if (process.versions.node.split(".")[0] !== NODE)
    return `code-server ${VERSION} needs Node ${NODE}, this is ${process.version}`;
  const ready = chromium() && which("rg") && (existsSync(finished) || which("g++"));
  if (!ready && !(which("apt-get") && process.getuid() === 0))
    return "Chromium, ripgrep and a C++ compiler are needed, and only root with apt-get can install them";
  return undefined;
}

function installSystemPackages() {
  if (chromium() && which("rg") && existsSync(finished)) return;
  run("apt-get", ["update", "-qq"]);
  run("apt-get", ["install", "-y", "-qq", "--no-install-recommends", ...PACKAGES], {
    DEBIAN_FRONTEND: "noninteractive",
  });
}

// Package scripts stay off, whatever npm's settings are: they fetch builds from elsewhere. The native modules that the
// server needs are compiled here instead.
function installCodeServer() {
  rmSync(root, { recursive: true, force: true });
  mkdirSync(root, { recursive: true });
  npm(root, "--prefix", root, `code-server@${VERSION}`, `node-gyp@${NODE_GYP}`);
  for (const folder of [vscode, join(vscode, "extensions")]) npm(folder, "--omit=dev");
  const gyp = join(root, "node_modules/node-gyp/bin/node-gyp.js");
  for (const module of MODULES) node(join(vscode, "node_modules", module), gyp, "rebuild");
  const preGyp = join(root, "node_modules/@mapbox/node-pre-gyp/bin/node-pre-gyp");
  node(join(root, "node_modules/argon2"), preGyp, "rebuild", { npm_config_node_gyp: gyp });
  mkdirSync(join(vscode, "node_modules/@vscode/ripgrep/bin"), { recursive: true });
  symlinkSync(which("rg"), join(vscode, "node_modules/@vscode/ripgrep/bin/rg"));
  for (const folder of [vscode, join(vscode, "extensions")])
    symlinkSync("node_modules", join(folder, "node_modules.asar"));
  writeFileSync(finished, "");
}

function npm(folder, ...words) {
  run("npm", ["install", ...words, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], {}, folder);
}

// Node's own headers are used where they lie beside it; node-gyp fetches them otherwise.
function node(folder, program, word, variables = {}) {
  const home = resolve(dirname(process.execPath), "..");
  const headers = existsSync(join(home, "include/node/node.h")) ? { npm_config_nodedir: home } : {};
  run(process.execPath, [program, word], { JOBS: "max", ...headers, ...variables }, folder);
}

function run(command, words, variables = {}, cwd = checkout) {
  const env = { ...process.env, ...variables };
  const quiet = { stdio: ["ignore", "pipe", "pipe"], maxBuffer: 1 << 28 }; // the error tells what went to stderr
  execFileSync(command, words, { cwd, env, ...quiet });
}

function chromium() {
  return which("chromium") ?? which("chromium-browser") ?? which("google-chrome");
}

function which(name) {
  const folders = (process.env.PATH ?? "").split(":").filter((folder) => folder.startsWith("/"));
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
}
