module loupe.test/signpost

go 1.19

require github.com/gorilla/mux v1.4.0

require github.com/gorilla/context v1.1.2 // indirect
