// The user's settings, typed, and what of them the server is told. The only file that names setting keys.
//
// A workspace's values are read for `enabled`, which they may only switch off, and for `languages`, which reach the
// server apart from the user's, so that they only tighten.

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

type Languages = Readonly<Record<string, unknown>>;

/** What the server is told at its start and with each change: the same keys as config.toml. */
export interface ServerOptions {
  readonly model?: string;
  readonly drafter?: string;
  readonly context?: number;
  readonly max_tokens?: number;
  readonly languages?: Languages;
  readonly workspace?: { readonly languages: Languages };
}

export function readSettings(inspect: Inspect): Settings {
  const user = (key: string) => userValue(inspect(key));
  return {
    enabled: isEnabled(inspect("enabled")),
    launch: { path: text(user("path")), interpreter: text(user("interpreter")) },
    server: serverOptions(user, inspect("languages")?.workspaceValue),
  };
}

/** Whether they need another process, not just a word to the one that runs. */
export function needsRestart(before: Settings, after: Settings): boolean {
  const process = ({ launch, server: { model, drafter, context } }: Settings) =>
    JSON.stringify([launch, model, drafter, context]);
  return process(before) !== process(after);
}

function serverOptions(user: (key: string) => unknown, workspaceLanguages: unknown): ServerOptions {
  const [model, drafter, languages] = ["model", "drafter", "languages"].map(user);
  const [context, maxTokens] = ["context", "maxTokens"].map(user);
  return {
    ...(text(model) && { model: text(model) }),
    ...(text(drafter) && drafter !== "default" && { drafter: text(drafter) }),
    ...(typeof context === "number" && { context }),
    ...(typeof maxTokens === "number" && { max_tokens: maxTokens }),
    ...(isFilled(languages) && { languages }),
    ...(isFilled(workspaceLanguages) && { workspace: { languages: workspaceLanguages } }),
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

function isFilled(value: unknown): value is Languages {
  return typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length > 0;
}
