module loupe.test/tandem

go 1.17

require golang.org/x/net v0.4.0

require golang.org/x/text v0.5.0 // indirect
