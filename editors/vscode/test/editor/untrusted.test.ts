// A folder that nobody trusts, whose settings would start its own program; and a server in trouble.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Editor, Script } from "./editor";

const MESSAGE = "There is no model yet: ghostdraft models pull starter";
const hostile = new Script({ answers: [{ after: "total = su", text: "stolen" }] });
const script = new Script({ error: MESSAGE, answers: [{ after: "total = su", text: "m(values)" }] });
let editor: Editor;

before(async () => {
  const workspace = {
    "ghostdraft.path": hostile.program,
    "ghostdraft.interpreter": hostile.program,
    "ghostdraft.model": "theirs",
    "ghostdraft.languages": { python: { max_tokens: 5 } },
  };
  editor = await Editor.start({ machine: { "ghostdraft.path": script.program }, workspace, untrusted: true });
  await editor.open("first.py", "total = s");
  await editor.wake("u");
});
after(() => editor?.stop());

test("the user's server is started, and is told who said what", async () => {
  await editor.statusIs(/does not work/);
  assert.deepEqual(hostile.told("initialize"), []);
  const [{ initializationOptions }] = script.told("initialize");
  assert.deepEqual(initializationOptions, { workspace: { languages: { python: { max_tokens: 5 } } } });
});

test("ghost text works there", async () => {
  await editor.open("single.py", "");
  await editor.type("total = su");
  await editor.ghostIs("m(values)");
});

test("an error of the server's is seen in the status bar, with its words", async () => {
  await editor.statusIs(new RegExp(MESSAGE));
  await editor.page.locator('[id="ghostdraft.ghostdraft.ghostdraft.status"]').hover();
  await editor.page.waitForTimeout(1000);
  await editor.screenshot("vscode-error");
});

test("a server that is not there is told of, and started once it is", async () => {
  editor.configure({ "ghostdraft.path": "/nowhere/ghostdraft" });
  await editor.statusIs(/ghostdraft\.path names no file/);
  await editor.page.locator(".notification-toast", { hasText: "ghostdraft.path names no file" }).waitFor();
  editor.configure({ "ghostdraft.path": script.program });
  await editor.statusIs(new RegExp(MESSAGE));
});
