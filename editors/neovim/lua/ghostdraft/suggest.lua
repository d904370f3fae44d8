-- The life of a suggestion: asked for once typing rests, shown, typed through, taken or dropped.
--
-- There is one at a time, in the current window, in insert mode. A reply counts only if it answers the newest request
-- and neither text nor cursor moved since.

local ghost = require("ghostdraft.ghost")
local shape = require("ghostdraft.shape")

local M = {}

local METHOD = "textDocument/inlineCompletion"
local INVOKED, AUTOMATIC = 1, 2

--- @class ghostdraft.Place
--- @field buffer integer
--- @field version integer
--- @field row integer from 0
--- @field column integer bytes

--- @class ghostdraft.Suggestion
--- @field place ghostdraft.Place
--- @field text string
--- @field replaced integer bytes behind the cursor
--- @field line string the cursor's line
--- @field command lsp.Command?
--- @field client vim.lsp.Client

local timer = assert(vim.uv.new_timer())
local shown = nil --- @type ghostdraft.Suggestion?
local asked = nil --- @type { client: vim.lsp.Client, id: integer? }?
local seen = nil --- @type ghostdraft.Place? where the last change was looked at

local function here()
  local buffer = vim.api.nvim_get_current_buf()
  local row, column = unpack(vim.api.nvim_win_get_cursor(0))
  local version = vim.lsp.util.buf_versions[buffer]
  return { buffer = buffer, version = version, row = row - 1, column = column }
end

local function inserting()
  return vim.startswith(vim.api.nvim_get_mode().mode, "i")
end

local function current_line()
  return vim.api.nvim_get_current_line()
end

local function client_of(buffer)
  local client = vim.lsp.get_clients({ bufnr = buffer, name = "ghostdraft" })[1]
  return client and client.server_capabilities.inlineCompletionProvider and client or nil
end

local function cancel()
  timer:stop()
  if asked and asked.id then
    asked.client:cancel_request(asked.id)
  end
  asked = nil
end

--- Drops what is shown and what is asked for.
function M.drop()
  cancel()
  if shown then
    ghost.clear(shown.place.buffer)
  end
  shown = nil
end

local function show(suggestion)
  shown = suggestion
  local place = suggestion.place
  ghost.show(place.buffer, place.row, place.column, suggestion.text, suggestion.replaced)
end

--- The suggestion in an answer; nil where there is none that starts at the cursor.
local function read(result, place, client)
  local item = (result.items or result)[1]
  if not item or type(item.insertText) ~= "string" or not item.range then
    return nil
  end
  local line, first, last = current_line(), item.range.start, item.range["end"]
  local start = vim.str_byteindex(line, client.offset_encoding, first.character, false)
  local stop = vim.str_byteindex(line, client.offset_encoding, last.character, false)
  if first.line ~= place.row or last.line ~= place.row or start ~= place.column or item.insertText == "" then
    return nil
  end
  return {
    place = place,
    text = item.insertText,
    replaced = stop - start,
    line = line,
    command = item.command,
    client = client,
  }
end

local function complain(invoked, problem)
  if invoked and problem.code ~= vim.lsp.protocol.ErrorCodes.RequestCancelled then
    vim.notify("Ghostdraft: " .. problem.message, vim.log.levels.WARN)
  end
end

local function ask(client, kind)
  local place, mine = here(), { client = client }
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.context = { triggerKind = kind }
  asked = mine
  local _, id = client:request(METHOD, params, function(problem, result)
    if asked ~= mine then
      return
    end
    asked = nil
    if problem then
      complain(kind == INVOKED, problem)
    elseif result and inserting() and vim.deep_equal(place, here()) then
      local suggestion = read(result, place, client)
      if suggestion then
        show(suggestion)
      end
    end
  end, place.buffer)
  mine.id = id
end

--- Asks at once; by hand, so the server takes its time.
function M.ask_now()
  M.drop()
  local client = client_of(vim.api.nvim_get_current_buf())
  if client and inserting() then
    ask(client, INVOKED)
  end
end

--- Keeps what is shown where its beginning was typed. Returns whether it was.
local function typed_through(place)
  if not shown or place.buffer ~= shown.place.buffer or place.row ~= shown.place.row then
    return false
  end
  local before, after, column = shown.line, current_line(), shown.place.column
  local behind = before:sub(column + 1)
  local untouched = after:sub(1, column) == before:sub(1, column) and after:sub(place.column + 1) == behind
  local left = untouched and shape.after_typing(shown.text, after:sub(column + 1, place.column))
  if not left or left == behind:sub(1, shown.replaced) then
    return false
  end
  cancel()
  show(vim.tbl_extend("force", shown, { place = place, text = left, line = after }))
  return true
end

--- Text or cursor may have changed: follows, or drops and asks anew once typing rests.
--- @param debounce_ms integer
function M.changed(debounce_ms)
  local place = here()
  if not inserting() or vim.deep_equal(place, seen) then
    return
  end
  seen = place
  if typed_through(place) then
    return
  end
  M.drop()
  timer:start(debounce_ms, 0, function()
    vim.schedule(function()
      local client = client_of(place.buffer)
      if client and inserting() and vim.deep_equal(place, here()) then
        ask(client, AUTOMATIC)
      end
    end)
  end)
end

--- Insert mode or the window was left.
function M.left()
  seen = nil
  M.drop()
end

--- @return boolean
function M.visible()
  return shown ~= nil and inserting() and vim.deep_equal(shown.place, here())
end

--- Puts exactly what is shown, as an undo step of its own. Returns whether there was something to put.
--- @return boolean
function M.accept()
  if not M.visible() then
    return false
  end
  local taken = assert(shown)
  M.drop()
  vim.go.undolevels = vim.go.undolevels -- starts a new undo step
  local place, lines = taken.place, vim.split(taken.text, "\n", { plain = true })
  vim.api.nvim_buf_set_text(place.buffer, place.row, place.column, place.row, place.column + taken.replaced, lines)
  local column = #lines == 1 and place.column + #lines[1] or #lines[#lines]
  vim.api.nvim_win_set_cursor(0, { place.row + #lines, column })
  if taken.command then
    taken.client:exec_cmd(taken.command, { bufnr = place.buffer })
  end
  return true
end

return M
