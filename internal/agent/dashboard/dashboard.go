package dashboard

// A Dashboard is a page of panels.
type Dashboard struct {
	UID       string // part of the page's address, and the name of its file
	Title     string
	About     string
	Variables []Variable
	Rows      []Row
}

// A Variable is a choice at the top of a page. The user selects values of a label.
type Variable struct {
	Name  string // as queries name it: $name
	Label string
	Of    string // the series that have the label: a metric, with a selector of the variables before it
	From  string // the label
	One   bool   // exactly one value can be selected, otherwise some or all
}

// A Row is a group of panels with a title.
type Row struct {
	Title  string
	Panels []Panel
}

// A Panel shows the results of queries.
type Panel struct {
	Title   string
	About   string // what it means, and what is normal
	Kind    Kind
	Unit    Unit
	Width   int // of 24 columns; 0 is 8
	Stacked bool
	Queries []Query
	Max     float64  // upper end of the axis; 0 if it depends on the values
	Link    string   // UID of the dashboard that a row of a table opens
	Columns []string // what a table shows, in this order: labels, and "Value"
}

// A Query is an expression of PromQL with variables.
type Query struct {
	Expr   string
	Legend string // with labels as in "{{state}}"
}

// A Kind is a way to show values.
type Kind uint8

// The kinds.
const (
	Graph   Kind = iota // lines over time
	Stat                // the newest value
	Heatmap             // the buckets of a histogram over time
	Table               // the newest values with their labels
)

// A Unit is the unit of values, as Grafana spells it.
type Unit string

// The units.
const (
	Number     Unit = "short"
	PerSecond  Unit = "cps" // counts per second
	Seconds    Unit = "s"
	Bytes      Unit = "bytes"
	ByteRate   Unit = "binBps"
	Part       Unit = "percentunit" // of 1
	Processors Unit = "none"
)

// interval is the range of rates. Grafana replaces it by at least four scrape intervals.
const interval = "[$__rate_interval]"

// All returns the dashboards.
func All() []Dashboard { return []Dashboard{fleet(), target(), agent()} }
