import assert from "node:assert/strict";
import { test } from "node:test";
import { face, parseStatus } from "../../src/status";

test("each state has its own icon, and only an error stands out in colour", () => {
  const states = (["off", "loading", "ready", "error"] as const).map((state) => face({ state }));
  assert.equal(new Set(states.map(({ text }) => text)).size, 4);
  assert.deepEqual(
    states.map(({ background }) => background !== undefined),
    [false, false, false, true],
  );
});

test("the tooltip names the model and carries the server's message", () => {
  const { tooltip } = face({ state: "error", model: "starter", message: "Pull it: ghostdraft models pull starter" });
  assert.match(tooltip, /Pull it: ghostdraft models pull starter\nModel: starter$/);
});

test("a status from the wire is taken over, without what is not text", () => {
  assert.deepEqual(parseStatus({ state: "ready", model: "tiny", message: 4, more: true }), {
    state: "ready",
    model: "tiny",
  });
});

test("a status that says nothing known is shown as an error", () => {
  for (const params of [undefined, null, {}, { state: "busy" }, { state: "constructor" }])
    assert.equal(parseStatus(params).state, "error");
});
