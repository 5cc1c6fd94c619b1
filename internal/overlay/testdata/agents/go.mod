module agents

go 1.21
