package testcollector

import (
	"reflect"
	"testing"
	"time"
)

// printed is what the exporter prints for two spans and a metric.
const printed = `Traces	{"resource spans": 1, "spans": 2}
ResourceSpans #0
Resource SchemaURL: 
Resource attributes:
     -> service.name: Str(svc)
     -> process.pid: Int(7)
ScopeSpans #0
ScopeSpans SchemaURL: 
InstrumentationScope net/http 1.0
Span #0
    Trace ID       : 5b8efff798038103d269b633813fc60c
    Parent ID      : eee19b7ec3c1b173
    ID             : eee19b7ec3c1b174
    Name           : two
lines
    Kind           : Server
    Start time     : 2018-12-13 14:51:00.5 +0000 UTC
    End time       : 2018-12-13 14:51:01 +0000 UTC
    Status code    : Error
    Status message : bad
    DroppedAttributesCount: 0
    DroppedEventsCount: 0
    DroppedLinksCount: 0
Attributes:
     -> my.attr: Str(v -> Str(x)
l2)
     -> a: Slice(["q"])
Events:
SpanEvent #0
     -> Name: ev
     -> Timestamp: 2018-12-13 14:51:00 +0000 UTC
     -> DroppedAttributesCount: 0
     -> Attributes::
          -> k: Str(v)
Links:
SpanLink #0
     -> Trace ID: 5b8efff798038103d269b633813fc60c
     -> ID: eee19b7ec3c1b175
     -> TraceState: 
     -> DroppedAttributesCount: 0
Span #1
    Trace ID       : 5b8efff798038103d269b633813fc60c
    Parent ID      : 
    ID             : eee19b7ec3c1b176
    Name           : GET /
    Kind           : Internal
    Start time     : 2018-12-13 14:51:00 +0000 UTC
    End time       : 2018-12-13 14:51:01 +0000 UTC
    Status code    : Unset
    Status message : 

Metrics	{"resource metrics": 1, "metrics": 1, "data points": 1}
ResourceMetrics #0
Resource SchemaURL: 
Resource attributes:
     -> service.name: Str(other)
HistogramDataPoints #0
Data point attributes:
     -> k: Str(v)
`

func TestParse(t *testing.T) {
	const trace = "5b8efff798038103d269b633813fc60c"
	resource := map[string]string{"service.name": "svc", "process.pid": "7"}
	end := time.Date(2018, 12, 13, 14, 51, 1, 0, time.UTC)
	want := []Span{
		{
			TraceID: trace, ID: "eee19b7ec3c1b174", ParentID: "eee19b7ec3c1b173", Name: "two\nlines", Kind: "Server",
			Start: end.Add(-time.Second / 2), End: end, Status: "Error", Message: "bad", Scope: "net/http",
			Attributes: map[string]string{"my.attr": "v -> Str(x)\nl2", "a": `["q"]`}, Resource: resource,
			Events: []string{"ev"}, Links: []string{"eee19b7ec3c1b175"},
		},
		{
			TraceID: trace, ID: "eee19b7ec3c1b176", Name: "GET /", Kind: "Internal", Start: end.Add(-time.Second), End: end,
			Status: "Unset", Scope: "net/http", Attributes: map[string]string{}, Resource: resource,
		},
	}
	if got := parse(printed); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}
