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

    async function puts(name: string, prefix: string, key: string, suffix: string): Promise<string> {
      await editor.open(name, prefix, suffix);
      const shown = await editor.wake(key, 300);
      await editor.screenshot(`vscode-${model}-${name}`);
      await editor.press("Tab");
      assert.equal(await editor.saved(name), `${prefix}${key}${shown}${suffix}`);
      return shown;
    }

    before(async () => {
      execFileSync(python, ["-P", "-m", "ghostdraft.lsp_server", "models", "pull", model], { stdio: "ignore" });
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
      const shown = await puts("encoder.py", prefix, "k", suffix);
      if (model === "starter") assert.match(shown, /^_circular = check_circular/);
    });

    test("writes the body of a block", async () => {
      const [prefix = "", suffix] = readFileSync(join(checkout, "tests/data/averages.py.txt"), "utf8").split(
        "<cursor>",
      );
      const shown = await puts("averages.py", prefix.slice(0, -1), " ", suffix ?? "");
      if (model === "starter") assert.match(shown, /^self\.count \+= 1\n +self\.mean/);
    });
  });

/** json/encoder.py around a line that is cut short, by one letter more than was typed of it. */
function encoder(): [string, string] {
  const text = readFileSync(say("json.encoder", "json.encoder.__file__"), "utf8");
  const at = text.indexOf(LINE);
  return [text.slice(0, at) + TYPED.slice(0, -1), text.slice(at + LINE.length)];
}

function say(module: string, expression: string): string {
  return execFileSync(python, ["-c", `import ${module}; print(${expression})`], { encoding: "utf8" }).trim();
}
