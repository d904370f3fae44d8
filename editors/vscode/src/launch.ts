// Which program to start. Knows nothing of VS Code: settings and environment in, a command line or a sentence out.
//
// Only absolute paths are started. A name looked up by the system may be found in the workspace, which is not trusted.

import { posix, win32 } from "node:path";

export interface LaunchSettings {
  readonly path: string;
  readonly interpreter: string;
}

export interface Machine {
  readonly platform: NodeJS.Platform;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly isFile: (path: string) => boolean;
}

export interface Command {
  readonly command: string;
  readonly args: readonly string[];
}

/** The server cannot be started; the message says what to mend. */
export class LaunchError extends Error {}

const SERVE = ["serve", "--stdio"];

export function commandLine(settings: LaunchSettings, machine: Machine): Command {
  if (settings.path) return { command: checked(settings.path, "ghostdraft.path", machine), args: SERVE };
  if (settings.interpreter) return interpreted(checked(settings.interpreter, "ghostdraft.interpreter", machine));
  const found = onPath(machine);
  if (found) return { command: found, args: SERVE };
  throw new LaunchError(
    "Ghostdraft's server is not installed: no `ghostdraft` on the PATH. Install it, or set ghostdraft.path to where it is.",
  );
}

function interpreted(interpreter: string): Command {
  return { command: interpreter, args: ["-P", "-m", "ghostdraft.lsp_server", ...SERVE] };
}

function checked(path: string, setting: string, machine: Machine): string {
  const { isAbsolute } = paths(machine);
  if (!isAbsolute(path)) throw new LaunchError(`${setting} must be an absolute path, not “${path}”.`);
  if (!machine.isFile(path)) throw new LaunchError(`${setting} names no file: “${path}”.`);
  return path;
}

function onPath(machine: Machine): string | undefined {
  const { delimiter, isAbsolute, join } = paths(machine);
  const name = machine.platform === "win32" ? "ghostdraft.exe" : "ghostdraft";
  const folders = (machine.env.PATH ?? machine.env.Path ?? "").split(delimiter).filter((folder) => isAbsolute(folder));
  return folders.map((folder) => join(folder, name)).find(machine.isFile);
}

function paths(machine: Machine): typeof posix {
  return machine.platform === "win32" ? win32 : posix;
}
