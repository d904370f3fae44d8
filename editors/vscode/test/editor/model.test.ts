// The real server, run by the interpreter GHOSTDRAFT_PYTHON, with real models.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { checkout, Editor, python } from "./editor";

const LINE = "        self.check_circular = check_circular";
const TYPED = "        self.check";
const PATIENT = { default: { budget_ms: 600_000 } }; // the machine may be busy with other things

for (const model of ["tiny", "starter"])
  describe(model, () => {
    let editor: Editor;

    async function accepts(name: string, before: string, behind: string): Promise<string> {
      const shown = await editor.ghost();
      await editor.screenshot(`vscode-${model}-${name}`);
      await editor.press("Tab");
      assert.equal(await editor.saved(name), before + shown + behind);
      return shown;
    }

    before(async () => {
      execFileSync(python, ["-P", "-m", "ghostdraft.lsp_server", "models", "pull", model], { stdio: "pipe" });
      const interpreter = say("sys", "sys.executable");
      const machine = { "ghostdraft.interpreter": interpreter, "ghostdraft.model": model };
      editor = await Editor.start({ machine: { ...machine, "ghostdraft.languages": PATIENT } });
    });
    after(() => editor?.stop());

    test("is loaded", async () => {
      await editor.statusIs(new RegExp(`is ready.*Model: ${model}`, "s"));
    });

    test("writes into a file of the standard library, and Tab puts exactly that", async () => {
      const [prefix, suffix] = encoder();
      await editor.open("encoder.py", prefix, suffix);
      await editor.wake("k", 300);
      const shown = await accepts("encoder.py", `${prefix}k`, suffix);
      if (model === "starter") assert.match(shown, /^_circular = check_circular/);
    });

    test("writes the body of a block when asked by hand", async () => {
      const [prefix = "", suffix = ""] = read(join(checkout, "tests/data/averages.py.txt")).split("<cursor>");
      await editor.open("averages.py", prefix, suffix);
      await editor.command("Trigger Inline Suggestion");
      await editor.until(
        async () => (await editor.ghost()) !== "",
        () => "ghost text",
        300,
      );
      const shown = await accepts("averages.py", prefix, suffix);
      if (model === "starter") assert.match(shown, /^self\.count \+= 1\n +self\.mean/);
    });
  });

/** json/encoder.py around a line that is cut short, by one letter more than was typed of it. */
function encoder(): [string, string] {
  const text = read(say("json.encoder", "json.encoder.__file__"));
  const at = text.indexOf(LINE);
  return [text.slice(0, at) + TYPED.slice(0, -1), text.slice(at + LINE.length)];
}

function say(module: string, expression: string): string {
  return execFileSync(python, ["-c", `import ${module}; print(${expression})`], { encoding: "utf8" }).trim();
}

function read(path: string): string {
  return readFileSync(path, "utf8");
}
