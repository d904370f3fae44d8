-- :checkhealth ghostdraft

local M = {}

local health = vim.health
local INSTALL = "Install the server (:help ghostdraft-start), then: ghostdraft models pull starter"

local function check_neovim()
  local native = require("ghostdraft.native").present()
  local drawer = native and "Neovim itself draws the ghost text" or "the plugin draws the ghost text"
  health.ok(("Neovim %s: %s"):format(tostring(vim.version()), drawer))
end

local function check_program()
  local command = vim.lsp.config.ghostdraft.cmd
  if type(command) ~= "table" then
    health.info("The server is started by a function of yours.")
    return
  end
  local path = vim.fn.exepath(command[1])
  if path == "" then
    health.error(("`%s` was not found"):format(command[1]), { INSTALL, 'or vim.lsp.config("ghostdraft", { cmd = … })' })
  else
    health.ok("Server: " .. table.concat({ path, unpack(command, 2) }, " "))
  end
end

local function check_server()
  local client = vim.lsp.get_clients({ name = "ghostdraft" })[1]
  local status = require("ghostdraft.status")
  if not client then
    local hint = 'Put require("ghostdraft").enable() into your init.lua, and open a file.'
    health.warn(status.sentence(), require("ghostdraft").is_enabled() and ":Ghostdraft log" or hint)
    return
  end
  local report = status.current().state == "error" and health.error or health.ok
  report(status.sentence())
  local buffers = #vim.tbl_keys(client.attached_buffers)
  health.info(("Columns are counted in %s; buffers: %d"):format(client.offset_encoding, buffers))
end

local function check_key()
  local key = require("ghostdraft.config").get().accept_key
  if not key then
    health.info("No key is mapped by the plugin; use <Plug>(ghostdraft-accept).")
  elseif (vim.fn.maparg(key, "i", false, true).desc or ""):find("^Ghostdraft") then
    health.ok(key .. " takes the suggestion, and does what it did before where there is none")
  else
    local mend = "Map <Plug>(ghostdraft-accept) to a key of your own."
    health.warn(("%s was mapped anew by something else"):format(key), mend)
  end
end

function M.check()
  health.start("ghostdraft")
  check_neovim()
  check_program()
  check_server()
  check_key()
end

return M
