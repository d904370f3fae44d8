import assert from "node:assert/strict";
import { test } from "node:test";
import { type Inspected, needsRestart, readSettings } from "../../src/settings";

function settings(values: Record<string, Inspected>) {
  return readSettings((key) => values[key]);
}

test("untouched settings say nothing to the server, so that its own config.toml stands", () => {
  const defaults = {
    model: { defaultValue: "" },
    drafter: { defaultValue: "default" },
    languages: { defaultValue: {} },
  };
  assert.deepEqual(settings(defaults).server, {});
  assert.equal(settings(defaults).enabled, true);
});

test("what the user set reaches the server under config.toml's keys", () => {
  const { server } = settings({
    model: { globalValue: " tiny " },
    drafter: { globalValue: "none" },
    context: { globalValue: 4096 },
    maxTokens: { globalValue: 32 },
    languages: { globalValue: { python: { budget_ms: 300 } } },
  });
  const languages = { python: { budget_ms: 300 } };
  const expected = { model: "tiny", drafter: "none", context: 4096, max_tokens: 32, languages };
  assert.deepEqual(server, expected);
});

test("a workspace cannot name a program, a model or a drafter", () => {
  const hostile = { workspaceValue: "/evil", workspaceFolderValue: "/evil" };
  const read = settings({ path: hostile, interpreter: hostile, model: hostile, drafter: hostile, maxTokens: hostile });
  assert.deepEqual(read, settings({}));
});

test("a workspace's budgets reach the server apart from the user's own, so that it can tell who said what", () => {
  const [own, theirs] = [{ go: { budget_ms: 100 } }, { go: { trigger: "off" } }];
  const { server } = settings({ languages: { globalValue: own, workspaceValue: theirs } });
  assert.deepEqual(server, { languages: own, workspace: { languages: theirs } });
});

test("a workspace may switch off, and never on", () => {
  assert.equal(settings({ enabled: { workspaceValue: false } }).enabled, false);
  assert.equal(settings({ enabled: { workspaceFolderValue: false } }).enabled, false);
  assert.equal(settings({ enabled: { globalValue: false, workspaceValue: true } }).enabled, false);
});

test("a value of the wrong type counts as not set", () => {
  const read = settings({
    path: { globalValue: 7 },
    context: { globalValue: "all" },
    maxTokens: { globalValue: "many" },
    languages: { globalValue: [] },
  });
  assert.deepEqual(read, settings({}));
});

test("another program, model, drafter or context needs another process; a budget does not", () => {
  const before = settings({ model: { globalValue: "tiny" } });
  const budget = settings({ model: { globalValue: "tiny" }, languages: { globalValue: { go: { budget_ms: 90 } } } });
  assert.equal(needsRestart(before, budget), false);
  for (const key of ["model", "drafter", "path", "interpreter"])
    assert.equal(needsRestart(before, settings({ [key]: { globalValue: "other" } })), true, key);
  assert.equal(needsRestart(before, settings({ model: { globalValue: "tiny" }, context: { globalValue: 512 } })), true);
});
