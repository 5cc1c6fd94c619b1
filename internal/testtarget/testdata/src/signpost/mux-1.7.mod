module loupe.test/signpost

go 1.19

require github.com/gorilla/mux v1.7.0
