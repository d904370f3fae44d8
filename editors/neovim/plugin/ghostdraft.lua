-- Read at Neovim's start: commands, maps and highlight. Loads nothing else until a server is attached or a key is hit.

if vim.g.loaded_ghostdraft then
  return
end
vim.g.loaded_ghostdraft = true

if vim.fn.has("nvim-0.11") == 0 then
  vim.notify("Ghostdraft needs Neovim 0.11 or later.", vim.log.levels.ERROR)
  return
end

local function call(name)
  return function()
    return require("ghostdraft")[name]()
  end
end

local ACTIONS = {
  enable = call("enable"),
  disable = function()
    require("ghostdraft").enable(false)
  end,
  toggle = call("toggle"),
  restart = call("restart"),
  status = function()
    vim.notify(require("ghostdraft.status").sentence())
  end,
  log = function()
    vim.cmd.tabedit(vim.fn.fnameescape(vim.lsp.log.get_filename()))
  end,
}

vim.api.nvim_create_user_command("Ghostdraft", function(command)
  local action = ACTIONS[command.args]
  if action then
    action()
  else
    vim.notify("Ghostdraft: no such action: " .. command.args, vim.log.levels.ERROR)
  end
end, {
  nargs = 1,
  complete = function(start)
    return vim.iter(vim.spairs(ACTIONS))
      :map(function(name)
        return vim.startswith(name, start) and name or nil
      end)
      :totable()
  end,
  desc = "Ghostdraft: enable, disable, toggle, restart, status, log",
})

vim.api.nvim_set_hl(0, "GhostdraftText", { default = true, link = "Comment" })

for _, name in ipairs({ "accept", "suggest", "dismiss" }) do
  vim.keymap.set("i", ("<Plug>(ghostdraft-%s)"):format(name), call(name), { desc = "Ghostdraft: " .. name })
end
vim.keymap.set("n", "<Plug>(ghostdraft-toggle)", call("toggle"), { desc = "Ghostdraft: toggle" })

local key = require("ghostdraft.config").get().accept_key
if key then
  require("ghostdraft.keys").map(key, call("accept"))
end

local group = vim.api.nvim_create_augroup("ghostdraft", {})
vim.api.nvim_create_autocmd("LspAttach", {
  group = group,
  callback = function(event)
    require("ghostdraft").attach(assert(vim.lsp.get_client_by_id(event.data.client_id)), event.buf)
  end,
})
vim.api.nvim_create_autocmd("LspDetach", {
  group = group,
  callback = function(event)
    require("ghostdraft").detach(vim.lsp.get_client_by_id(event.data.client_id), event.buf)
  end,
})
