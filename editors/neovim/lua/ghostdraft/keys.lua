-- A key that takes the suggestion, and does what it always did where there is none.

local M = {}

local function feed(keys, remap)
  vim.api.nvim_feedkeys(vim.keycode(keys), remap and "im" or "in", false)
end

--- Does what a mapping from |maparg()| would have done.
local function perform(mapping)
  local remap = mapping.noremap == 0
  local result = mapping.rhs
  if mapping.callback then
    result = mapping.callback()
  elseif mapping.expr == 1 then
    result = vim.api.nvim_eval(mapping.rhs)
  end
  if type(result) == "string" and (mapping.expr == 1 or not mapping.callback) then
    feed(result, remap)
  end
end

--- @param key string
--- @param accept fun(): boolean whether there was a suggestion to take
function M.map(key, accept)
  local before = vim.fn.maparg(key, "i", false, true)
  vim.keymap.set("i", key, function()
    if vim.fn.pumvisible() == 0 and accept() then
      return
    end
    if vim.tbl_isempty(before) then
      feed(key, false)
    else
      perform(before)
    end
  end, { desc = "Ghostdraft: take the suggestion" })
end

return M
