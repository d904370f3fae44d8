-- One server for many projects: tells the running one of each new project's folder.

local M = {}

local function known(client, root)
  return vim.iter(client.workspace_folders or {}):any(function(folder)
    return folder.name == root
  end)
end

local function notify(client, added)
  if #added > 0 then
    client:notify("workspace/didChangeWorkspaceFolders", { event = { added = added, removed = {} } })
  end
end

--- Whether this client serves another project too; if so, it hears of the project's folder.
--- @param client vim.lsp.Client
--- @param config vim.lsp.ClientConfig
--- @return boolean
function M.share(client, config)
  if client.name ~= config.name or client:is_stopped() then
    return false
  end
  local root = config.root_dir
  if root and not known(client, root) then
    local folder = { uri = vim.uri_from_fname(root), name = root }
    client.workspace_folders = vim.list_extend(client.workspace_folders or {}, { folder })
    if client.initialized then
      notify(client, { folder })
    end
  end
  return true
end

--- Tells of the folders that came while the server started.
--- @param client vim.lsp.Client
function M.announce(client)
  notify(client, vim.list_slice(client.workspace_folders or {}, client.root_dir and 2 or 1))
end

return M
