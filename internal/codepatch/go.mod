module github.com/loupe-go/loupe/internal/codepatch

go 1.23

require golang.org/x/arch v0.14.0
