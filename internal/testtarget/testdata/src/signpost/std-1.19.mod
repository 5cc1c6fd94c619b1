module loupe.test/signpost

go 1.19
