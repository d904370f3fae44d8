std = "luajit"
read_globals = { "vim" }
max_line_length = 120
files["**"] = { globals = { "vim.g", "vim.go", "vim.o", "vim.bo", "vim.wo", "vim.env", "vim.opt" } }
