-- What the server last said of itself, and the words for it.

local M = {}

local STATES = { off = "off", loading = "loading", ready = "ready", error = "in trouble" }

--- @type { state: string, model: string?, message: string? }
local current = { state = "off" }
local reporter = nil --- @type integer? the client that reported last

local function set(status)
  current = status
  vim.schedule(function()
    vim.cmd.redrawstatus({ bang = true })
    vim.api.nvim_exec_autocmds("User", { pattern = "GhostdraftStatus" })
  end)
end

--- Handler of the notification `ghostdraft/status`.
function M.received(_, params, context)
  reporter = context.client_id
  if type(params) ~= "table" or not STATES[params.state] then
    params = { state = "error", message = "The server sent no state." }
  end
  set(params)
end

--- Callback for the end of a server's process; that of one which was replaced meanwhile says nothing.
function M.exited(code, _, client_id)
  if reporter and reporter ~= client_id then
    return
  end
  if code == 0 then
    set({ state = "off" })
  else
    set({ state = "error", message = ("The server stopped with status %d; :Ghostdraft log says why."):format(code) })
  end
end

function M.current()
  return current
end

--- One sentence, for a person.
--- @return string
function M.sentence()
  local model = current.model and current.model ~= "" and (" (%s)"):format(current.model) or ""
  local message = current.message and current.message ~= "" and ": " .. current.message or ""
  return ("Ghostdraft is %s%s%s"):format(STATES[current.state], model, message)
end

--- For 'statusline': empty where the current buffer has no server.
--- @return string
function M.line()
  local attached = #vim.lsp.get_clients({ bufnr = 0, name = "ghostdraft" }) > 0
  return (attached or current.state == "error") and "ghostdraft: " .. STATES[current.state] or ""
end

return M
