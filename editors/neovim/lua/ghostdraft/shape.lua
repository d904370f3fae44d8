-- How a text looks before it is there: pure, knows no buffer. Offsets are bytes unless they say display.

local M = {}

--- @class ghostdraft.Piece
--- @field offset integer bytes behind the cursor
--- @field text string

--- @class ghostdraft.Shape
--- @field pieces ghostdraft.Piece[]? what is put between the characters behind the cursor
--- @field cover string? where that cannot be: what the cursor's line looks like from the cursor on
--- @field below string[] lines under the cursor's line

--- The pieces that turn `rest` into `line`, few and late; nil where `rest` is not a subsequence of it.
--- @return ghostdraft.Piece[]?
local function insertions(line, rest)
  if vim.endswith(line, rest) then
    local text = line:sub(1, #line - #rest)
    return text ~= "" and { { offset = 0, text = text } } or {}
  end
  local pieces, from, offset = {}, 1, 0
  for _, character in ipairs(vim.fn.split(rest, [[\zs]])) do
    local at, last = line:find(character, from, true)
    if not at then
      return nil
    end
    if at > from then
      table.insert(pieces, { offset = offset, text = line:sub(from, at - 1) })
    end
    from, offset = last + 1, offset + #character
  end
  if from <= #line then
    table.insert(pieces, { offset = #rest, text = line:sub(from) })
  end
  return pieces
end

--- The looks of `text` in place of the first `replaced` bytes of `rest`, which is what stands behind the cursor.
--- @param text string
--- @param rest string
--- @param replaced integer
--- @return ghostdraft.Shape
function M.of(text, rest, replaced)
  local lines = vim.split(text .. rest:sub(replaced + 1), "\n", { plain = true })
  local first = table.remove(lines, 1)
  local pieces = insertions(first, rest)
  return { pieces = pieces, cover = not pieces and first or nil, below = lines }
end

--- `text` with its tabs as blanks, as it looks from a display column on.
--- @param text string
--- @param column integer display column, from 0
--- @return string
function M.expand(text, column)
  local parts = vim.split(text, "\t", { plain = true })
  local shown = parts[1]
  for index = 2, #parts do
    local at = column + vim.fn.strdisplaywidth(shown, column)
    shown = shown .. (" "):rep(vim.fn.strdisplaywidth("\t", at)) .. parts[index]
  end
  return shown
end

--- What is left of `text` once `typed` was typed; nil where it was not what `text` begins with, or nothing is left.
--- @return string?
function M.after_typing(text, typed)
  if vim.startswith(text, typed) and #text > #typed then
    return text:sub(#typed + 1)
  end
end

return M
