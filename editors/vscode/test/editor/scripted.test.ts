// Against a server that answers from a script: what is shown, taken, dropped and told, whatever a model might say.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Editor, Script } from "./editor";

const BODY = "(self):\n        return self.width * self.height\n\n    def edge";
const script = new Script({
  loading: 1,
  answers: [
    { after: "total = su", text: "m(values)" },
    { after: "def area", text: BODY },
    { after: "print(", text: "total, end='')", rest: true },
    { after: "naïve = 'Привет 😀'; x = ", text: "'é' + '😀'" },
    { after: "slow = ", text: "never seen", delay: 30 },
  ],
});
let editor: Editor;

before(async () => {
  editor = await Editor.start({ machine: { "ghostdraft.path": script.program, "ghostdraft.model": "tiny" } });
  await editor.open("first.py", "total = s");
  await editor.wake("u");
});
after(() => editor?.stop());

test("the status goes from loading to ready, and the server knows the user's settings", async () => {
  await editor.statusIs(/is ready.*Model: scripted/s);
  const [{ initializationOptions }] = script.told("initialize");
  assert.deepEqual(initializationOptions, { model: "tiny" });
});

test("the server hears where the cursor rests", async () => {
  await editor.open("cursor.py", "one = 1\ntwo = 2\n");
  await editor.press("Control+Home");
  await editor.press("ArrowRight");
  await editor.press("ArrowDown");
  const told = () => script.told("ghostdraft/didMoveCursor").map(({ position }) => position);
  await editor.until(
    () => told().some(({ line, character }) => line === 1 && character === 1),
    () => `a cursor at 1:1 among ${JSON.stringify(told())}`,
  );
});

test("a single line is shown, Tab puts exactly that, and the server hears of it", async () => {
  await editor.open("single.py", "values = [1]\n");
  await editor.type("total = su");
  await editor.ghostIs("m(values)");
  await editor.screenshot("vscode-single");
  await editor.press("Tab");
  await editor.ghostIs("");
  assert.equal(await editor.saved("single.py"), "values = [1]\ntotal = sum(values)\n");
  const [{ command }] = script.told("workspace/executeCommand");
  assert.equal(command, "scripted.accepted");
});

test("several lines are shown, and Tab puts exactly those", async () => {
  await editor.open("several.py", "class Box:\n    ", "\n\nbox = Box()\n");
  await editor.type("def area");
  await editor.ghostIs(BODY);
  await editor.screenshot("vscode-several");
  await editor.press("Tab");
  assert.equal(await editor.saved("several.py"), `class Box:\n    def area${BODY}\n\nbox = Box()\n`);
});

test("undo takes back what was accepted, and no more", async () => {
  await editor.open("undo.py", "");
  await editor.type("total = su");
  await editor.ghostIs("m(values)");
  await editor.press("Tab");
  assert.equal(await editor.saved("undo.py"), "total = sum(values)\n");
  await editor.press("Control+Z");
  assert.equal(await editor.saved("undo.py"), "total = su\n");
});

test("a text that takes in the bracket behind the cursor leaves one bracket", async () => {
  await editor.open("rest.py", "print", ")\n");
  await editor.type("(");
  await editor.ghostIs("total, end=''");
  await editor.press("Tab");
  assert.equal(await editor.saved("rest.py"), "print(total, end='')\n");
});

test("after accents, Cyrillic and emoji the text lands at the cursor", async () => {
  await editor.open("multibyte.py", "naïve = 'Привет 😀'; x =", "  # 😀\n");
  await editor.type(" ");
  await editor.ghostIs("'é' + '😀'");
  await editor.press("Tab");
  assert.equal(await editor.saved("multibyte.py"), "naïve = 'Привет 😀'; x = 'é' + '😀'  # 😀\n");
});

test("typing what is suggested keeps it, typing anything else drops it", async () => {
  await editor.open("through.py", "");
  await editor.type("total = su");
  await editor.ghostIs("m(values)");
  await editor.type("m(");
  await editor.ghostIs("values)");
  await editor.type("x");
  await editor.ghostIs("");
});

test("asked by hand, the server knows it", async () => {
  await editor.open("hand.py", "total = su");
  await editor.command("Trigger Inline Suggestion");
  await editor.ghostIs("m(values)");
  const kinds = script.told("textDocument/inlineCompletion").map(({ context }) => context.triggerKind);
  assert.equal(kinds.at(-1), 1);
});

test("Escape drops it, and Tab indents again", async () => {
  await editor.open("escape.py", "");
  await editor.type("total = su");
  await editor.ghostIs("m(values)");
  await editor.press("Escape");
  await editor.ghostIs("");
  await editor.press("Tab");
  assert.match(await editor.saved("escape.py"), /^total = su +\n$/);
});

test("typing on cancels what the server still works at", async () => {
  await editor.open("slow.py", "");
  await editor.type("slow = ");
  const last = () => script.told("textDocument/inlineCompletion").at(-1);
  const asked = () => last().textDocument.uri.endsWith("slow.py") && last().position.character === "slow = ".length;
  await editor.until(asked, () => "the request");
  const cancelled = script.told("$/cancelRequest").length;
  await editor.type("1");
  await editor.until(
    () => script.told("$/cancelRequest").length > cancelled,
    () => "the cancelling",
  );
  await editor.ghostIs("");
});

test("switched off there is no server and no ghost text; switched on again there is", async () => {
  await editor.command("Ghostdraft: Switch On or Off");
  await editor.statusIs(/is off/);
  await editor.until(
    () => script.told("shutdown").length === 1,
    () => "the server's end",
  );
  await editor.open("toggle.py", "");
  await editor.type("total = su");
  await editor.page.waitForTimeout(1500);
  assert.equal(await editor.ghost(), "");
  await editor.command("Ghostdraft: Switch On or Off");
  await editor.statusIs(/is ready/);
  await editor.press("Backspace");
  await editor.type("u");
  await editor.ghostIs("m(values)");
});

test("a restart brings up a new server", async () => {
  const before = script.told("initialize").length;
  await editor.command("Ghostdraft: Restart Server");
  await editor.until(
    () => script.told("initialize").length === before + 1,
    () => "the new server",
  );
  await editor.statusIs(/is ready/);
});
