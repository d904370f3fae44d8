import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Editor, Script } from "./editor";

const script = new Script({
  loading: 1,
  answers: [{ after: "total = su", text: "m(values)" }],
});
let editor: Editor;

before(async () => {
  editor = await Editor.start({ machine: { "ghostdraft.path": script.program } });
});
after(() => editor?.stop());

test("a single line is shown, and Tab puts exactly that", async () => {
  await editor.statusIs(/is ready/);
  await editor.open("single.py", "values = [1]\n|\n");
  await editor.type("total = su");
  await editor.ghostIs("m(values)");
  await editor.screenshot("vscode-single");
  await editor.press("Tab");
  assert.equal(await editor.saved("single.py"), "values = [1]\ntotal = sum(values)\n");
});
