module loupe.test/signpost

go 1.20

require github.com/gorilla/mux v1.8.1
