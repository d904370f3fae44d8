-- The user's choices for this plugin: vim.g.ghostdraft. What the server does is set with vim.lsp.config.

local M = {}

local DEFAULTS = { debounce_ms = 50, accept_key = "<Tab>" }

--- @return { debounce_ms: integer, accept_key: string|false }
function M.get()
  local chosen = vim.g.ghostdraft or {}
  vim.validate("g:ghostdraft", chosen, "table")
  vim.validate("g:ghostdraft.debounce_ms", chosen.debounce_ms, "number", true)
  vim.validate("g:ghostdraft.accept_key", chosen.accept_key, { "string", "boolean" }, true)
  return vim.tbl_extend("force", DEFAULTS, chosen)
end

return M
