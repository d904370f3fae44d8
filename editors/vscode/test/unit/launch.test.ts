import assert from "node:assert/strict";
import { test } from "node:test";
import { commandLine, LaunchError, type Machine } from "../../src/launch";

const unset = { path: "", interpreter: "" };

function machine(files: string[], path: string, platform: NodeJS.Platform = "linux"): Machine {
  return { platform, env: { PATH: path }, isFile: (file) => files.includes(file) };
}

test("the program on the PATH is started by its absolute path, the first one found", () => {
  const here = machine(["/opt/bin/ghostdraft", "/usr/bin/ghostdraft"], "/home/me/bin:/opt/bin:/usr/bin");
  assert.deepEqual(commandLine(unset, here), { command: "/opt/bin/ghostdraft", args: ["serve", "--stdio"] });
});

test("relative and empty entries of the PATH are passed over, since they may lie in the workspace", () => {
  const here = machine(["ghostdraft", "bin/ghostdraft", "./ghostdraft"], ":.:bin");
  assert.throws(() => commandLine(unset, here), LaunchError);
});

test("on Windows the program ends in .exe and the PATH is cut at semicolons", () => {
  const here = machine(["C:\\Python\\Scripts\\ghostdraft.exe"], "C:\\Windows;C:\\Python\\Scripts", "win32");
  assert.equal(commandLine(unset, here).command, "C:\\Python\\Scripts\\ghostdraft.exe");
});

test("a path from the settings wins over the interpreter and over the PATH", () => {
  const here = machine(["/my/ghostdraft", "/my/python", "/usr/bin/ghostdraft"], "/usr/bin");
  const settings = { path: "/my/ghostdraft", interpreter: "/my/python" };
  assert.equal(commandLine(settings, here).command, "/my/ghostdraft");
});

test("an interpreter runs the server as a module, with the working folder off its search path", () => {
  const started = commandLine({ path: "", interpreter: "/my/python" }, machine(["/my/python"], ""));
  assert.deepEqual(started, {
    command: "/my/python",
    args: ["-P", "-m", "ghostdraft.lsp_server", "serve", "--stdio"],
  });
});

test("a relative path from the settings is refused, and so is one that names no file", () => {
  const here = machine(["bin/ghostdraft"], "");
  assert.throws(() => commandLine({ ...unset, path: "bin/ghostdraft" }, here), /ghostdraft\.path must be an absolute/);
  assert.throws(
    () => commandLine({ ...unset, interpreter: "/no/python" }, here),
    /ghostdraft\.interpreter names no file/,
  );
});

test("where nothing is installed the message says what to do", () => {
  assert.throws(() => commandLine(unset, machine([], "/usr/bin")), /Install it, or set ghostdraft\.path/);
});
