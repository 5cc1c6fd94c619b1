module loupe.test/signpost

go 1.19

require github.com/go-chi/chi v4.0.2+incompatible
