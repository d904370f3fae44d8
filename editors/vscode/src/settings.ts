// The user's settings, typed, and what of them the server is told. The only file that names setting keys.
//
// A workspace's values are read for `enabled` alone, and may only switch off.

import type { LaunchSettings } from "./launch";

/** What `vscode.WorkspaceConfiguration.inspect` tells of one key. */
export interface Inspected {
  readonly defaultValue?: unknown;
  readonly globalValue?: unknown;
  readonly workspaceValue?: unknown;
  readonly workspaceFolderValue?: unknown;
}

export type Inspect = (key: string) => Inspected | undefined;

export interface Settings {
  readonly enabled: boolean;
  readonly launch: LaunchSettings;
  readonly server: ServerOptions;
}

/** `initializationOptions`, and the answer to `workspace/configuration`: the same keys as config.toml. */
export interface ServerOptions {
  readonly model?: string;
  readonly drafter?: string;
  readonly max_tokens?: number;
  readonly languages?: Readonly<Record<string, unknown>>;
}

export function readSettings(inspect: Inspect): Settings {
  const user = (key: string) => userValue(inspect(key));
  return {
    enabled: isEnabled(inspect("enabled")),
    launch: { path: text(user("path")), interpreter: text(user("interpreter")) },
    server: serverOptions(user),
  };
}

/** Two settings that need another process, not just a word to the one that runs. */
export function needsRestart(before: Settings, after: Settings): boolean {
  const process = ({ launch, server }: Settings) => JSON.stringify([launch, server.model, server.drafter]);
  return process(before) !== process(after);
}

function serverOptions(user: (key: string) => unknown): ServerOptions {
  const [model, drafter, maxTokens, languages] = ["model", "drafter", "maxTokens", "languages"].map(user);
  return {
    ...(text(model) && { model: text(model) }),
    ...(text(drafter) && drafter !== "default" && { drafter: text(drafter) }),
    ...(typeof maxTokens === "number" && { max_tokens: maxTokens }),
    ...(isRecord(languages) && Object.keys(languages).length > 0 && { languages }),
  };
}

function isEnabled(values: Inspected | undefined): boolean {
  const all = [values?.globalValue, values?.workspaceValue, values?.workspaceFolderValue];
  return !all.includes(false);
}

function userValue(values: Inspected | undefined): unknown {
  return values?.globalValue ?? values?.defaultValue;
}

function text(value: unknown): string {
  return typeof value === "string" ? value.trim() : "";
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
