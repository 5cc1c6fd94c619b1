module loupe.test/signpost

go 1.19

require github.com/go-chi/chi v1.5.5
