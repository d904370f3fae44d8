-- Ghost text from the Ghostdraft language server: what a user's configuration and the commands call.

local config = require("ghostdraft.config")
local cursor = require("ghostdraft.cursor")
local native = require("ghostdraft.native")
local status = require("ghostdraft.status")
local suggest = require("ghostdraft.suggest")

local M = {}

local NAME = "ghostdraft"
local enabled = false

--- Takes what is shown. Returns whether there was something.
--- @return boolean
function M.accept()
  return (native.present() and native or suggest).accept()
end

--- Asks for a suggestion by hand, without a time limit.
function M.suggest()
  suggest.ask_now()
end

--- Drops what is shown.
function M.dismiss()
  suggest.drop()
end

--- Starts the server for the buffers that are open and those to come, or stops it.
--- @param on boolean?
function M.enable(on)
  enabled = on ~= false
  if not enabled then
    suggest.left()
  end
  vim.lsp.enable(NAME, enabled)
end

function M.toggle()
  M.enable(not enabled)
  vim.notify("Ghostdraft is " .. (enabled and "on" or "off"))
end

function M.restart()
  M.enable(false)
  M.enable(true)
end

--- @return boolean
function M.is_enabled()
  return enabled
end

--- For 'statusline': %{v:lua.require'ghostdraft'.statusline()}
--- @return string
function M.statusline()
  return status.line()
end

--- Follows typing in a buffer that the server was attached to.
--- @param client vim.lsp.Client
--- @param buffer integer
function M.attach(client, buffer)
  if client.name ~= NAME then
    return
  end
  enabled = true
  cursor.follow(client, buffer)
  if native.present() then
    return native.attach(client)
  end
  local group = vim.api.nvim_create_augroup("ghostdraft." .. buffer, {})
  local debounce_ms = config.get().debounce_ms
  local on = function(events, action)
    vim.api.nvim_create_autocmd(events, { group = group, buffer = buffer, callback = action })
  end
  on({ "InsertEnter", "TextChangedI", "CursorMovedI" }, function()
    suggest.changed(debounce_ms)
  end)
  on({ "TextChangedP" }, suggest.drop)
  on({ "BufLeave", "WinLeave" }, suggest.left)
  local leaving = { group = vim.api.nvim_create_augroup("ghostdraft.mode", {}), pattern = "i*:[^i]*" }
  leaving.callback = suggest.left
  vim.api.nvim_create_autocmd("ModeChanged", leaving) -- CTRL-C leaves without InsertLeave
end

--- @param client vim.lsp.Client?
--- @param buffer integer
function M.detach(client, buffer)
  if not client or client.name ~= NAME then
    return
  end
  cursor.leave(buffer)
  if not native.present() then
    vim.api.nvim_create_augroup("ghostdraft." .. buffer, {})
    suggest.left()
  end
end

return M
