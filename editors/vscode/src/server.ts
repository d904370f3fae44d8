// The one server process and its language client: brought in line with the settings, one change after the other.

import { homedir } from "node:os";
import { commands, type LogOutputChannel, languages, type Position, type TextDocument, window } from "vscode";
import {
  DidChangeConfigurationNotification,
  LanguageClient,
  type LanguageClientOptions,
  RevealOutputChannelOn,
  State,
  type StateChangeEvent,
} from "vscode-languageclient/node";
import { type Command, commandLine, LaunchError, type Machine } from "./launch";
import { needsRestart, type Settings } from "./settings";
import { parseStatus, type Status } from "./status";

const STATUS = "ghostdraft/status";
const CURSOR = "ghostdraft/didMoveCursor";
const DOCUMENTS = [{ scheme: "file" }, { scheme: "untitled" }];

export class Server {
  private client: LanguageClient | undefined;
  private applied: Settings | undefined;
  private queue: Promise<void> = Promise.resolve();

  constructor(
    private readonly machine: Machine,
    private readonly output: LogOutputChannel,
    private readonly report: (status: Status) => void,
  ) {}

  apply(settings: Settings): Promise<void> {
    return this.enqueue(async () => {
      const before = this.applied;
      this.applied = settings;
      if (!settings.enabled) await this.stop();
      else if (!this.client?.isRunning()) await this.replace(settings);
      else if (before && needsRestart(before, settings)) await this.replace(settings);
      else await this.configure(settings);
    });
  }

  restart(): Promise<void> {
    return this.enqueue(async () => {
      if (this.applied?.enabled) await this.replace(this.applied);
    });
  }

  /** The cursor rests there: the server may read ahead. */
  async cursorRests(document: TextDocument, position: Position): Promise<void> {
    const client = this.client;
    if (!client?.isRunning() || !languages.match(DOCUMENTS, document)) return;
    const { code2ProtocolConverter: converter } = client;
    await client.sendNotification(CURSOR, converter.asTextDocumentPositionParams(document, position));
  }

  dispose(): Promise<void> {
    return this.enqueue(() => this.stop());
  }

  private enqueue(change: () => Promise<void>): Promise<void> {
    this.queue = this.queue.then(change).catch((error: unknown) => this.fail(error));
    return this.queue;
  }

  private async replace(settings: Settings): Promise<void> {
    await this.stop();
    await this.start(settings);
  }

  private async start(settings: Settings): Promise<void> {
    const client = this.newClient(commandLine(settings.launch, this.machine));
    client.onNotification(STATUS, (params: unknown) => this.report(parseStatus(params)));
    client.onDidChangeState((event) => this.follow(client, event));
    this.client = client;
    await client.start();
  }

  private async stop(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    this.report({ state: "off" });
    if (!client?.needsStop()) return;
    await client.start(); // one that is still starting cannot be stopped yet
    await client.dispose().catch((error: unknown) => this.output.warn(sentence(error)));
  }

  private async configure(settings: Settings): Promise<void> {
    const params = { settings: { ghostdraft: settings.server } };
    await this.client?.sendNotification(DidChangeConfigurationNotification.type, params);
  }

  private newClient({ command, args }: Command): LanguageClient {
    const options: LanguageClientOptions = {
      documentSelector: DOCUMENTS,
      outputChannel: this.output,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      initializationOptions: () => this.applied?.server,
    };
    // Started at home: the working folder of a server must not be a workspace that nobody trusts yet.
    return new LanguageClient(
      "ghostdraft",
      "Ghostdraft",
      { command, args: [...args], options: { cwd: homedir() } },
      options,
    );
  }

  private follow(client: LanguageClient, { newState }: StateChangeEvent): void {
    if (client !== this.client) return; // stopped on purpose
    if (newState === State.Starting) this.report({ state: "loading" });
    if (newState === State.Stopped || newState === State.StartFailed) this.report(STOPPED);
  }

  private fail(error: unknown): void {
    this.output.error(sentence(error));
    this.report({ state: "error", message: sentence(error) });
    if (error instanceof LaunchError) void offerSettings(error.message);
  }
}

async function offerSettings(message: string): Promise<void> {
  const chosen = await window.showErrorMessage(message, "Open Settings");
  if (chosen) await commands.executeCommand("workbench.action.openSettings", "ghostdraft.path");
}

function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const STOPPED: Status = { state: "error", message: "The server stopped. Its output says why." };
