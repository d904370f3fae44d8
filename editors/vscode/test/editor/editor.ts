// A real VS Code in a real browser, driven by keys and read from the page. Knows nothing of any one test.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";

export const checkout = resolve(__dirname, "../../../../..");
const extension = join(checkout, "editors/vscode");
export const artefacts = join(checkout, ".cache/artefacts");
export const python = process.env.GHOSTDRAFT_PYTHON ?? "python3";

const MACHINE_SETTINGS = "user/Machine/settings.json";
const PATIENCE_S = 90; // for a machine that is busy with other things
const BROWSER = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"];
const QUIET = {
  "editor.autoClosingBrackets": "never",
  "editor.quickSuggestions": { other: "off", comments: "off", strings: "off" },
  "editor.suggestOnTriggerCharacters": false,
  "editor.wordBasedSuggestions": "off",
  "editor.fontSize": 15,
  "editor.minimap.enabled": false,
  "extensions.autoCheckUpdates": false,
  "files.autoSave": "off",
  "security.workspace.trust.startupPrompt": "never",
  "telemetry.telemetryLevel": "off",
  "workbench.colorTheme": "Default Dark Modern",
  "workbench.startupEditor": "none",
  "workbench.tips.enabled": false,
};

export interface Wish {
  /** Settings that hold for this machine, such as the server's path. */
  readonly machine: Record<string, unknown>;
  readonly workspace?: Record<string, unknown>;
  readonly untrusted?: boolean;
}

export class Editor {
  private constructor(
    readonly folder: string,
    private readonly home: string,
    private readonly process: ChildProcess,
    private readonly browser: Browser,
    readonly page: Page,
  ) {}

  static async start(wish: Wish): Promise<Editor> {
    const setup = JSON.parse(execFileSync(process.execPath, [join(extension, "test/setup.mjs")], { encoding: "utf8" }));
    const home = mkdtempSync(join(tmpdir(), "ghostdraft-vscode-"));
    const folder = layOut(home, wish);
    install(setup.code, home);
    const port = await freePort();
    const server = serve(setup.code, home, folder, port, wish);
    const browser = await chromium.launch({ executablePath: setup.chromium, args: BROWSER });
    const page = await browser.newPage({ viewport: { width: 1000, height: 620 } });
    page.setDefaultTimeout(PATIENCE_S * 1000);
    const editor = new Editor(folder, home, server, browser, page);
    try {
      await editor.load(`http://127.0.0.1:${port}/?folder=${encodeURIComponent(folder)}`);
    } catch (error) {
      await editor.stop();
      throw error;
    }
    return editor;
  }

  async stop(): Promise<void> {
    await this.browser.close();
    const ended = new Promise((done) => this.process.once("exit", done));
    this.process.kill();
    await ended;
    rmSync(this.home, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  }

  /** Changes the settings of this machine under the running VS Code. */
  configure(machine: Record<string, unknown>): void {
    writeFileSync(join(this.home, MACHINE_SETTINGS), JSON.stringify(machine));
  }

  /** Opens a new file with this text, the cursor between its two parts. */
  async open(name: string, before: string, behind = "\n"): Promise<void> {
    writeFileSync(join(this.folder, name), before + behind);
    const lines = before.split("\n");
    const [line, column] = [lines.length, (lines.at(-1) ?? "").length + 1];
    await this.pick(`${join(this.folder, name)}:${line}:${column}`, name);
    await this.page.locator(`.monaco-editor.focused[data-uri$="/${name}"]`).waitFor();
    await this.page.locator(".statusbar-item", { hasText: `Ln ${line},` }).waitFor();
  }

  async type(text: string): Promise<void> {
    await this.page.keyboard.type(text, { delay: 25 });
  }

  /** Types this character, and again, until there is ghost text: just after its start VS Code asks for none yet. */
  async wake(character: string, seconds = PATIENCE_S): Promise<string> {
    const shown = async () => (await this.ghost()) !== "";
    const asked = async () => {
      await this.type(character);
      const end = Date.now() + 10_000;
      while (!(await shown()) && Date.now() < end) await this.page.waitForTimeout(100);
      if (await shown()) return true;
      await this.press("Backspace");
      return false;
    };
    await this.until(asked, () => "any ghost text", seconds);
    return this.ghost();
  }

  async press(...keys: string[]): Promise<void> {
    for (const key of keys) await this.page.keyboard.press(key);
  }

  async command(title: string): Promise<void> {
    await this.pick(`>${title}`, title);
  }

  /** The ghost text on the page, its lines joined; empty where there is none. */
  async ghost(): Promise<string> {
    const inline = await this.page
      .locator(".view-lines .ghost-text-decoration, .view-lines .ghost-text")
      .allInnerTexts();
    const below = await this.page
      .locator(".view-zones .ghost-text .view-line, .view-zones .suggest-preview-text .view-line")
      .allInnerTexts();
    return [inline.join(""), ...below].join("\n").replaceAll("\u00a0", " ");
  }

  async ghostIs(expected: string): Promise<void> {
    await this.until(
      async () => (await this.ghost()) === expected,
      async () => `ghost text ${JSON.stringify(expected)}, not ${JSON.stringify(await this.ghost())}`,
    );
  }

  /** What the active file says once saved. */
  async saved(name: string): Promise<string> {
    await this.press("Control+S");
    await this.page.locator(".tab.active:not(.dirty)").waitFor();
    return readFileSync(join(this.folder, name), "utf8");
  }

  async statusIs(words: RegExp): Promise<void> {
    const label = () => this.page.locator('[id="ghostdraft.ghostdraft.ghostdraft.status"]').getAttribute("aria-label");
    await this.until(
      async () => words.test((await label()) ?? ""),
      async () => `status ${words}, not ${await label()}`,
    );
  }

  async until(
    holds: () => Promise<boolean> | boolean,
    what: () => Promise<string> | string,
    seconds = PATIENCE_S,
  ): Promise<void> {
    const end = Date.now() + seconds * 1000;
    while (!(await holds())) {
      if (Date.now() > end) await this.giveUp(await what());
      await this.page.waitForTimeout(50);
    }
  }

  private async giveUp(what: string): Promise<never> {
    await this.screenshot("vscode-failed");
    throw new Error(`still waiting for ${what}; see ${artefacts}/vscode-failed.png and vscode-server.log`);
  }

  async screenshot(name: string): Promise<void> {
    mkdirSync(artefacts, { recursive: true });
    await this.page.screenshot({ path: join(artefacts, `${name}.png`) });
  }

  private async load(url: string): Promise<void> {
    await this.until(
      () =>
        fetch(url).then(
          (answer) => answer.ok,
          () => false,
        ),
      () => url,
    );
    await this.page.goto(url, { waitUntil: "domcontentloaded" });
    await this.page.locator(".monaco-workbench").waitFor();
    await this.page.locator('[id="ghostdraft.ghostdraft.ghostdraft.status"]').waitFor();
  }

  /** Types into the quick input, waits until its list says so, and takes that. */
  private async pick(words: string, offered: string): Promise<void> {
    await this.press("Control+P");
    const input = this.page.locator(".quick-input-widget input[type=text]");
    await input.waitFor();
    await input.fill(words);
    await this.page.locator(".quick-input-list .monaco-list-row", { hasText: offered }).first().waitFor();
    await this.press("Enter");
    await input.waitFor({ state: "hidden" });
  }
}

/** A program that answers from a script, and the log of what it was told. */
export class Script {
  readonly program: string;
  private readonly log: string;

  constructor(script: object) {
    const folder = mkdtempSync(join(tmpdir(), "ghostdraft-script-"));
    this.program = join(folder, "ghostdraft");
    this.log = join(folder, "log");
    writeFileSync(join(folder, "script.json"), JSON.stringify(script));
    const words = [python, join(checkout, "tests/e2e/scripted_server.py"), join(folder, "script.json"), this.log];
    writeFileSync(this.program, `#!/bin/sh\nexec ${words.map((word) => `'${word}'`).join(" ")} "$@"\n`);
    chmodSync(this.program, 0o755);
  }

  // biome-ignore lint/suspicious/noExplicitAny: parameters of any message
  told(method: string): any[] {
    if (!existsSync(this.log)) return [];
    const lines = readFileSync(this.log, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    return lines.filter(([name]) => name === method).map(([, params]) => params);
  }
}

function layOut(home: string, wish: Wish): string {
  const folder = join(home, "work");
  for (const name of ["work/.vscode", "user/User", "user/Machine", "extensions"])
    mkdirSync(join(home, name), { recursive: true });
  writeFileSync(join(home, "user/User/settings.json"), JSON.stringify(QUIET));
  writeFileSync(join(home, MACHINE_SETTINGS), JSON.stringify(wish.machine));
  if (wish.workspace) writeFileSync(join(folder, ".vscode/settings.json"), JSON.stringify(wish.workspace));
  return folder;
}

function install(code: string, home: string): void {
  const words = ["--install-extension", join(extension, "ghostdraft.vsix"), ...homes(home)];
  execFileSync(process.execPath, [code, ...words], { stdio: ["ignore", "ignore", "inherit"] });
}

function serve(code: string, home: string, folder: string, port: number, wish: Wish): ChildProcess {
  const trust = wish.untrusted ? [] : ["--disable-workspace-trust"];
  const words = [
    "--auth",
    "none",
    "--bind-addr",
    `127.0.0.1:${port}`,
    ...homes(home),
    ...trust,
    "--disable-telemetry",
    "--disable-update-check",
    folder,
  ];
  mkdirSync(artefacts, { recursive: true });
  const log = openSync(join(artefacts, "vscode-server.log"), "w");
  return spawn(process.execPath, [code, ...words], { stdio: ["ignore", log, log] });
}

function homes(home: string): string[] {
  const config = join(home, "config.yaml");
  writeFileSync(config, "cert: false\n");
  return ["--config", config, "--user-data-dir", join(home, "user"), "--extensions-dir", join(home, "extensions")];
}

function freePort(): Promise<number> {
  return new Promise((done, failed) => {
    const probe = createServer().once("error", failed);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => done(typeof address === "object" && address ? address.port : 0));
    });
  });
}
