-- Tells the server where the cursor rests, so that it may read ahead.

local M = {}

local REST_MS = 100

local timer = assert(vim.uv.new_timer())

local function group_of(buffer)
  return vim.api.nvim_create_augroup("ghostdraft.cursor." .. buffer, {})
end

local function tell(client, buffer)
  if vim.api.nvim_get_current_buf() == buffer and not client:is_stopped() then
    client:notify("ghostdraft/didMoveCursor", vim.lsp.util.make_position_params(0, client.offset_encoding))
  end
end

--- @param client vim.lsp.Client
--- @param buffer integer
function M.follow(client, buffer)
  local rests = vim.schedule_wrap(function()
    tell(client, buffer)
  end)
  vim.api.nvim_create_autocmd({ "BufEnter", "CursorMoved", "CursorMovedI" }, {
    group = group_of(buffer),
    buffer = buffer,
    callback = function()
      timer:start(REST_MS, 0, rests)
    end,
  })
end

--- @param buffer integer
function M.leave(buffer)
  group_of(buffer)
end

return M
