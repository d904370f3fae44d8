-- Draws and wipes ghost text. The only file that touches extmarks; knows nothing of servers.

local shape = require("ghostdraft.shape")

local M = {}

local NAMESPACE = vim.api.nvim_create_namespace("ghostdraft")
local HIGHLIGHT = "GhostdraftText"

local function mark(buffer, row, column, options)
  options.hl_mode = "combine"
  vim.api.nvim_buf_set_extmark(buffer, NAMESPACE, row, column, options)
end

local function below(lines)
  local virtual = {}
  for _, line in ipairs(lines) do
    table.insert(virtual, { { shape.expand(line, 0), HIGHLIGHT } })
  end
  return virtual
end

local function inline(buffer, row, column, line, pieces)
  local inserted = 0
  for _, piece in ipairs(pieces) do
    local at = column + piece.offset
    local shown = shape.expand(piece.text, vim.fn.strdisplaywidth(line:sub(1, at)) + inserted)
    inserted = inserted + vim.fn.strdisplaywidth(shown)
    mark(buffer, row, at, { virt_text = { { shown, HIGHLIGHT } }, virt_text_pos = "inline" })
  end
end

--- Over what stands behind the cursor, blanks included, so that it is seen once only.
local function over(buffer, row, column, line, cover)
  local start = vim.fn.strdisplaywidth(line:sub(1, column))
  local shown = shape.expand(cover, start)
  local missing = vim.fn.strdisplaywidth(line) - start - vim.fn.strdisplaywidth(shown)
  local text = shown .. (" "):rep(math.max(0, missing))
  mark(buffer, row, column, { virt_text = { { text, HIGHLIGHT } }, virt_text_pos = "overlay" })
end

--- Shows `text` in place of `replaced` bytes behind (row, column), row from 0, column in bytes.
function M.show(buffer, row, column, text, replaced)
  M.clear(buffer)
  local line = vim.api.nvim_buf_get_lines(buffer, row, row + 1, true)[1]
  local looks = shape.of(text, line:sub(column + 1), replaced)
  if looks.pieces then
    inline(buffer, row, column, line, looks.pieces)
  else
    over(buffer, row, column, line, looks.cover)
  end
  if #looks.below > 0 then
    mark(buffer, row, column, { virt_lines = below(looks.below) })
  end
end

function M.clear(buffer)
  if vim.api.nvim_buf_is_valid(buffer) then
    vim.api.nvim_buf_clear_namespace(buffer, NAMESPACE, 0, -1)
  end
end

return M
