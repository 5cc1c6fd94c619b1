module github.com/loupe-go/loupe/memtrace

go 1.23

require github.com/loupe-go/loupe/internal/codepatch v0.1.0

require golang.org/x/arch v0.14.0 // indirect
