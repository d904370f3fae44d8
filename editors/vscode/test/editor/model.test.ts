// The real server, run by the interpreter GHOSTDRAFT_PYTHON, with real models.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { Editor, python } from "./editor";

const LINE = "        self.check_circular = check_circular";
const TYPED = "        self.check";
const PATIENT = { default: { budget_ms: 600_000 } }; // the machine may be busy with other things

for (const model of ["tiny", "starter"])
  describe(model, () => {
    let editor: Editor;

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
      await editor.open("encoder.py", prefix, suffix);
      const shown = await editor.wake("k", 300);
      if (model === "starter") assert.match(shown, /^_circular = check_circular/);
      await editor.screenshot(`vscode-${model}`);
      await editor.press("Tab");
      assert.equal(await editor.saved("encoder.py"), `${prefix}k${shown}${suffix}`);
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
