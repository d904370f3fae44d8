-- nvim -u NONE --cmd "set rtp^=." -l test/unit.lua: the parts that know no buffer.

local shape = require("ghostdraft.shape")

local function is(actual, expected, what)
  assert(vim.deep_equal(actual, expected), ("%s: %s, not %s"):format(what, vim.inspect(actual), vim.inspect(expected)))
end

local function looks(text, rest, replaced)
  return shape.of(text, rest, replaced or 0)
end

is(looks("sum(x)", "").pieces, { { offset = 0, text = "sum(x)" } }, "at the end of a line")
is(looks("a, b", ")").pieces, { { offset = 0, text = "a, b" } }, "before what stays")
is(looks("a, b)", ")", 1).pieces, { { offset = 0, text = "a, b" } }, "over a bracket")
is(looks("f(a)[b]", ")]", 2).pieces, {
  { offset = 0, text = "f(a" },
  { offset = 1, text = "[b" },
}, "around two brackets")
is(looks("): pass", ")", 1).pieces, { { offset = 1, text = ": pass" } }, "behind a bracket")
is(looks(")", ")", 1), { pieces = {}, below = {} }, "nothing new")
is(looks("a:\n  b\n", ""), { pieces = { { offset = 0, text = "a:" } }, below = { "  b", "" } }, "several lines")
is(looks("\n  a\n)", ")", 1), { cover = "", below = { "  a", ")" } }, "a bracket that moves down")
is(looks("a,\n b", ") # é"), { cover = "a,", below = { " b) # é" } }, "what stays moves down")
is(looks("ñèx", "è", 2).pieces, {
  { offset = 0, text = "ñ" },
  { offset = 2, text = "x" },
}, "whole characters, not bytes")
is(looks("é", "è", 2).pieces, nil, "two characters that share a byte")

vim.o.tabstop = 4
is(shape.expand("\ta\tb", 0), "    a   b", "tabs from the margin")
is(shape.expand("\tx", 3), " x", "a tab from a column")
is(shape.expand("é\tx", 0), "é   x", "a tab behind an accent")

is(shape.after_typing("sum(x)", "su"), "m(x)", "typed through")
is(shape.after_typing("sum(x)", "st"), nil, "typed something else")
is(shape.after_typing("su", "su"), nil, "typed to its end")
