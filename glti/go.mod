module github.com/loupe-go/loupe/glti

go 1.21
