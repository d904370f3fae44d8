// The status bar item, and the list that a click on it opens.

import { commands, type Disposable, StatusBarAlignment, ThemeColor, window } from "vscode";
import { face, type Status } from "./status";

export class StatusView implements Disposable {
  private readonly item = window.createStatusBarItem("ghostdraft.status", StatusBarAlignment.Right, 100);
  private status: Status = { state: "off" };

  constructor() {
    this.item.name = "Ghostdraft";
    this.item.command = "ghostdraft.showStatus";
    this.show(this.status);
    this.item.show();
  }

  show(status: Status): void {
    this.status = status;
    const { text, tooltip, background } = face(status);
    this.item.text = text;
    this.item.tooltip = tooltip;
    this.item.accessibilityInformation = { label: tooltip };
    this.item.backgroundColor = background && new ThemeColor(background);
  }

  /** What goes on, and what can be done about it. */
  async open(): Promise<void> {
    const actions = [
      { label: "$(power) Switch On or Off", command: "ghostdraft.toggle" },
      { label: "$(debug-restart) Restart Server", command: "ghostdraft.restart" },
      { label: "$(output) Show Output", command: "ghostdraft.showOutput" },
      { label: "$(gear) Settings", command: "workbench.action.openSettings", argument: "@ext:ghostdraft.ghostdraft" },
    ];
    const title = face(this.status).tooltip.replaceAll("\n", " ");
    const chosen = await window.showQuickPick(actions, { title });
    if (chosen) await commands.executeCommand(chosen.command, chosen.argument);
  }

  dispose(): void {
    this.item.dispose();
  }
}
