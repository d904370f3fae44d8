-- Neovim 0.12 and later draw inline completions themselves: switches that on, and takes what it shows.

local M = {}

--- @return boolean
function M.present()
  return vim.lsp.inline_completion ~= nil
end

--- @param client vim.lsp.Client
function M.attach(client)
  vim.lsp.inline_completion.enable(true, { client_id = client.id })
end

--- @return boolean whether there was something to take
function M.accept()
  return vim.lsp.inline_completion.get()
end

return M
