-- How Neovim starts the server: |lsp-config|. Change it with vim.lsp.config("ghostdraft", { ... }).
--
-- One server serves all projects: each holds a model, and a second one would hold it twice.

local folders = require("ghostdraft.folders")
local status = require("ghostdraft.status")

return {
  cmd = { "ghostdraft", "serve", "--stdio" },
  cmd_cwd = vim.uv.os_homedir(), -- not the project, which nobody vouched for
  root_markers = { ".ghostdraft.toml", ".git" },
  capabilities = { textDocument = { inlineCompletion = { dynamicRegistration = false } } },
  reuse_client = folders.share,
  on_init = folders.announce,
  on_exit = status.exited,
  handlers = { ["ghostdraft/status"] = status.received },
}
