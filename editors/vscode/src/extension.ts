// What VS Code calls: wires settings, commands and the status bar to the one server.

import { statSync } from "node:fs";
import {
  ConfigurationTarget,
  commands,
  type Disposable,
  type ExtensionContext,
  type TextEditor,
  window,
  workspace,
} from "vscode";
import type { Machine } from "./launch";
import { Server } from "./server";
import { readSettings, type Settings } from "./settings";
import { StatusView } from "./statusView";

const SECTION = "ghostdraft";
const REST_MS = 100; // of the cursor

let server: Server | undefined;

export async function activate(context: ExtensionContext): Promise<void> {
  const output = window.createOutputChannel("Ghostdraft", { log: true });
  const status = new StatusView();
  const running = new Server(thisMachine(), output, (news) => status.show(news));
  server = running;
  context.subscriptions.push(
    output,
    status,
    commands.registerCommand("ghostdraft.toggle", toggle),
    commands.registerCommand("ghostdraft.restart", () => running.restart()),
    commands.registerCommand("ghostdraft.showOutput", () => output.show()),
    commands.registerCommand("ghostdraft.showStatus", () => status.open()),
    onceCursorRests((editor) => void running.cursorRests(editor.document, editor.selection.active)),
    workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration(SECTION)) void running.apply(currentSettings());
    }),
  );
  await running.apply(currentSettings());
}

export function deactivate(): Promise<void> | undefined {
  return server?.dispose();
}

function onceCursorRests(tell: (editor: TextEditor) => void): Disposable {
  let waiting: NodeJS.Timeout | undefined;
  return window.onDidChangeTextEditorSelection(({ textEditor }) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => tell(textEditor), REST_MS);
  });
}

function currentSettings(): Settings {
  const configuration = workspace.getConfiguration(SECTION);
  return readSettings((key) => configuration.inspect(key));
}

/** Off means off everywhere; on also takes back this workspace's own no, since the user asks for it by hand. */
async function toggle(): Promise<void> {
  const configuration = workspace.getConfiguration(SECTION);
  const on = !currentSettings().enabled;
  await configuration.update("enabled", on, ConfigurationTarget.Global);
  if (on && configuration.inspect("enabled")?.workspaceValue === false)
    await configuration.update("enabled", undefined, ConfigurationTarget.Workspace);
}

function thisMachine(): Machine {
  return {
    platform: process.platform,
    env: process.env,
    isFile: (path) => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false,
  };
}
