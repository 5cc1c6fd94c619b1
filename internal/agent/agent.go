package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loupe-go/loupe/internal/agent/config"
	"github.com/loupe-go/loupe/internal/agent/push"
	"github.com/loupe-go/loupe/internal/agent/serve"
	"github.com/loupe-go/loupe/internal/agent/spool"
	"github.com/loupe-go/loupe/internal/agent/target"
)

// Options are what an agent needs in addition to its configuration.
type Options struct {
	Reloads <-chan config.Reload // further configurations; nil: none
	Log     *slog.Logger
	Started func(addresses []string) // is called when the agent serves; nil: no call
	Systemd bool                     // report the start and the health to systemd, if that has started the process
	Drop    bool                     // give up the privileges of the process that are not required after the start
}

// An Agent observes the Go processes of a machine.
type Agent struct {
	opt     Options
	log     *slog.Logger
	began   time.Time
	targets *manager
	clock   wallClock
	budget  *budget
	finder  *finder
	server  *serve.Server
	turned  atomic.Int64 // when the main loop turned last, in nanoseconds since began: the wall clock may be set

	mu         sync.Mutex // guards what follows
	pusher     *push.Pusher
	alerts     map[string]uint64 // by name
	reloads    map[string]uint64 // by result
	recordings *spool.Dir        // nil: no recordings are kept
	recorded   map[string]uint64 // by result
}

// Results of reloads, as the label result of metric.ConfigReloads has them.
const (
	reloadApplied = "applied"
	reloadRefused = "refused"
)

// closeTimeout is how long the last export may take.
const closeTimeout = 10 * time.Second

// Run runs an agent until the context ends. The error says why it could not start, in one line.
func Run(ctx context.Context, c *config.Config, opt Options) error {
	a := &Agent{opt: opt, log: opt.Log, began: time.Now(), alerts: map[string]uint64{}, reloads: map[string]uint64{reloadApplied: 0, reloadRefused: 0},
		recorded: map[string]uint64{recordWritten: 0, recordDropped: 0, recordFailed: 0}}
	a.clock.read = a.began
	for _, name := range target.Alerts {
		a.alerts[name] = 0
	}
	var err error
	if a.recordings, err = openRecordings(c); err != nil {
		return err
	}
	a.budget = newBudget(c.Budget.CPU, int64(c.Budget.Memory))
	a.targets = newManager(c, a.log, hooks{alert: a.alert, record: a.record, name: a.recordingName})
	if a.pusher, err = a.newPusher(ctx, c); err != nil {
		return err
	}
	defer func() { closePusher(a.pusher, a.log) }()
	defer a.targets.close()
	a.targets.output(a.pusher)
	if a.finder, err = newFinder(ctx, a.targets, c, a.log); err != nil {
		return err
	}
	defer a.finder.close()
	a.turned.Store(int64(time.Since(a.began)))
	if a.server, err = serve.Start(a.serveOptions(c)); err != nil {
		return err
	}
	defer a.server.Close(context.WithoutCancel(ctx))
	if opt.Drop {
		dropPrivileges(usesInline(c, a.finder.pods != nil), a.finder.source(ctx), a.log)
	}
	if opt.Started != nil {
		opt.Started(a.server.Addresses())
	}
	if opt.Systemd {
		ctx, stop := context.WithCancel(ctx)
		told := make(chan struct{})
		go func() {
			defer close(told)
			if err := serve.NotifySystemd(ctx, a.alive); err != nil {
				a.log.Warn("systemd is not told that the agent works", "err", err)
			}
		}()
		defer func() {
			stop()
			<-told
		}()
	}
	return a.loop(ctx)
}

// loop does what is due until the context ends.
func (a *Agent) loop(ctx context.Context) error {
	tick := time.NewTicker(budgetEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-a.server.Failed():
			return err
		case r := <-a.opt.Reloads:
			a.reload(ctx, r)
		case now := <-tick.C:
			if step := a.clock.step(now); step != 0 {
				a.log.Info("the wall clock was set; attaching again", "by", step)
				a.targets.readClock()
			}
			scale, changed, err := a.budget.step(now)
			switch {
			case err != nil:
				a.log.Warn("cannot measure what the agent uses", "err", err)
			case changed:
				a.log.Debug("what targets may cost has changed", "scale", scale)
				a.targets.rescale(scale)
			}
		}
		a.turned.Store(int64(time.Since(a.began)))
	}
}

// reload applies another configuration, or keeps the old one if that is invalid.
func (a *Agent) reload(ctx context.Context, r config.Reload) {
	result := reloadApplied
	if r.Config == nil {
		result = reloadRefused
		a.log.Error("the configuration is invalid; the old one stays in effect", "err", r.Err)
	} else {
		for _, w := range r.Config.Warnings() {
			a.log.Warn(w.String())
		}
		for _, c := range r.Changes {
			a.log.Info("the configuration has changed", "key", c.Path, "from", c.Old, "to", c.New)
		}
		for _, c := range r.Restart {
			a.log.Warn("a change has an effect after a restart of the agent", "key", c.Path, "from", c.Old, "to", c.New)
		}
		if err := a.apply(ctx, r); err != nil {
			result = reloadRefused
			a.log.Error("a part of the configuration is refused; the old settings stay in effect there", "err", err)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reloads[result]++
}

// apply applies a valid configuration.
func (a *Agent) apply(ctx context.Context, r config.Reload) error {
	c := r.Config
	a.budget.set(c.Budget.CPU, int64(c.Budget.Memory))
	recordings, err := openRecordings(c)
	if err == nil {
		a.mu.Lock()
		a.recordings = recordings
		a.mu.Unlock()
	}
	a.targets.configure(c)
	if !changesOutput(r.Changes) {
		return err
	}
	pusher, pushErr := a.newPusher(ctx, c)
	if pushErr != nil {
		return errors.Join(err, pushErr)
	}
	a.mu.Lock()
	old := a.pusher
	a.pusher = pusher
	a.mu.Unlock()
	a.targets.output(pusher)
	closePusher(old, a.log)
	return err
}

// alert notes an anomaly.
func (a *Agent) alert(t target.Alert) {
	a.log.Warn(t.Text, "alert", t.Name, "pid", t.Identity.PID, "process", t.Identity.Process, "pod", t.Identity.Pod, "recording", t.Recording)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.alerts[t.Name]++
}

// serveOptions are the settings of the HTTP servers.
func (a *Agent) serveOptions(c *config.Config) serve.Options {
	return serve.Options{Metrics: c.Output.Prometheus.Listen, Health: c.Health.Listen, Pprof: c.PProf.Listen, WebConfig: c.Output.Prometheus.WebConfigFile,
		Collector: serve.NewCollector(serve.CollectorOptions{Source: a.groups}), Alive: a.alive, Ready: a.ready, Logger: a.log}
}

// stuck is how long the main loop may take for a turn.
const stuck = time.Minute

// alive returns nil if the main loop turns.
func (a *Agent) alive() error {
	if d := time.Since(a.began) - time.Duration(a.turned.Load()); d > stuck {
		return fmt.Errorf("the main loop has not turned for %v", d.Round(time.Second))
	}
	return nil
}

// ready returns what prevents the agent from observing processes and from passing on what it learns.
func (a *Agent) ready() []string {
	reasons := a.finder.problems()
	t := a.targets.totals()
	if t.states[statusFailed] > 0 && t.states[statusObserved]+t.states[statusLimited] == 0 {
		reasons = append(reasons, "no process can be observed: see loupe_agent_attach_failures_total and the log")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.pusher.Err(); err != nil {
		reasons = append(reasons, err.Error())
	}
	return reasons
}
