module agent

go 1.21

require github.com/loupe-go/loupe/glti v0.0.0

replace github.com/loupe-go/loupe/glti => ../../../../glti
