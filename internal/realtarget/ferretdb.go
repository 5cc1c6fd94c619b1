package realtarget

import (
	"context"
	"errors"
)

// planFerretDB runs a FerretDB, which speaks the protocol of MongoDB and keeps the data in PostgreSQL. Tests use it with the driver of
// MongoDB; it has no load of its own.
func planFerretDB(at *site) (*plan, error) {
	return &plan{
		args: []string{
			"--handler=postgresql", "--postgresql-url=" + at.backend, "--listen-addr=" + at.addrs[0], "--debug-addr=" + at.addrs[1],
			"--state-dir=" + at.dir, "--telemetry=disable", "--log-level=ERROR",
		},
		pprof:   "http://" + at.addrs[1] + "/debug/pprof",
		ready:   "http://" + at.addrs[1] + "/debug/readyz",
		metrics: "http://" + at.addrs[1] + "/debug/metrics",
		serves:  at.addrs[0],
		connect: func(context.Context) (client, error) { return nil, errors.ErrUnsupported },
	}, nil
}

// Address returns the address at which the program serves clients.
func (p *Process) Address() string { return p.plan.serves }
