package main

// standardStructs are the wanted structs of the standard library.
var standardStructs = []wantedStruct{
	{"bufio", "Writer", "err buf n wr"},

	{"context", "cancelCtx", "Context"},
	{"context", "timerCtx", "cancelCtx"},
	{"context", "valueCtx", "Context key val"},

	{"database/sql", "Conn", "db dc"},
	{"database/sql", "DB", "connector"},
	{"database/sql", "Stmt", "db query"},
	{"database/sql", "Tx", "db dc ctx"},
	{"database/sql", "driverConn", "db ci"},
	{"database/sql", "dsnConnector", "dsn driver"},

	// The maps of Go 1.24 and later.
	{"internal/runtime/maps", "Map", "used seed dirPtr dirLen globalDepth"},
	{"internal/runtime/maps", "groupsReference", "data lengthMask"},
	{"internal/runtime/maps", "table", "groups capacity index"},

	{"net", "netFD", "raddr"},

	{"net/http", "Request", "Method URL Proto ProtoMajor ProtoMinor Header Body ContentLength Host RemoteAddr RequestURI TLS" +
		" Response Pattern pat ctx"},
	{"net/http", "Response", "Status StatusCode Proto ProtoMajor Header ContentLength Request"},
	{"net/http", "Server", "Addr"},
	{"net/http", "conn", "server remoteAddr tlsState rwc curReq hijackedv"},
	{"net/http", "pattern", "str method"},
	{"net/http", "persistConn", "conn alt tlsState isProxy"},
	{"net/http", "response", "conn req cw status written contentLength wroteHeader handlerHeader handlerDone"},
	{"net/http", "serverHandler", "srv"},
	{"net/http", "transportRequest", "Request extra trace"},

	// HTTP/2 in Go 1.26 and earlier.
	{"net/http", "http2ClientConn", "t tconn tlsState nextStreamID hbuf henc bw peerMaxHeaderListSize"},
	{"net/http", "http2clientStream", "cc ctx ID res"},
	{"net/http", "http2responseWriter", "rws"},
	{"net/http", "http2responseWriterState", "stream req conn handlerHeader status wroteHeader wroteBytes sentContentLen handlerDone"},
	{"net/http", "http2serverConn", "conn remoteAddrStr tlsState"},
	{"net/http", "http2stream", "id sc ctx"},

	// HTTP/2 in Go 1.27 and later. The types in net/http are adapters.
	{"net/http", "http2ResponseWriter", "ResponseWriter"},
	{"net/http", "http2RoundTripper", "t"},
	{"net/http/internal/http2", "ClientConn", "t tconn tlsState nextStreamID hbuf henc bw peerMaxHeaderListSize"},
	{"net/http/internal/http2", "ClientRequest", "Context Method URL Header Host ContentLength stream"},
	{"net/http/internal/http2", "ClientResponse", "Status StatusCode ContentLength Header"},
	{"net/http/internal/http2", "ServerRequest", "Context Proto ProtoMajor ProtoMinor Method URL Header Body Host ContentLength" +
		" RemoteAddr RequestURI TLS"},
	{"net/http/internal/http2", "clientStream", "cc ctx ID res"},
	{"net/http/internal/http2", "responseWriter", "rws"},
	{"net/http/internal/http2", "responseWriterState", "stream req conn handlerHeader status wroteHeader wroteBytes sentContentLen" +
		" handlerDone"},
	{"net/http/internal/http2", "serverConn", "conn remoteAddrStr tlsState"},
	{"net/http/internal/http2", "stream", "id sc ctx"},

	{"net/url", "URL", "Scheme Opaque User Host Path RawPath RawQuery"},

	// The maps of Go 1.23 and earlier.
	{"runtime", "hmap", "count flags B buckets oldbuckets noverflow"},

	{"time", "Time", "wall ext loc"},
}
