module github.com/loupe-go/loupe/trace/raw

go 1.23
