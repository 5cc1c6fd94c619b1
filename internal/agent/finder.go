package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os/user"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/loupe-go/loupe/internal/agent/config"
	"github.com/loupe-go/loupe/internal/agent/discover"
	"github.com/loupe-go/loupe/internal/agent/kube"
	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/goproc"
)

// A finder tells a manager which processes exist, and what they are part of.
type finder struct {
	log     *slog.Logger
	node    string
	targets *manager
	watcher *discover.Watcher
	pods    *kube.Watcher // nil: nothing is known about pods
	stop    context.CancelFunc
	running sync.WaitGroup

	mu        sync.Mutex
	processes map[goproc.Identity]discover.Process
	users     map[int]string // names by ID
	err       error          // why processes are no longer found
}

// newFinder begins to find processes.
func newFinder(ctx context.Context, targets *manager, c *config.Config, log *slog.Logger) (*finder, error) {
	f := &finder{log: log, node: c.Node, targets: targets, processes: map[goproc.Identity]discover.Process{}, users: map[int]string{}}
	ctx, f.stop = context.WithCancel(ctx)
	if err := f.watchPods(ctx, &c.Kubernetes); err != nil {
		f.stop()
		return nil, err
	}
	f.watcher = discover.New(discover.Options{Log: log})
	targets.mu.Lock()
	targets.unread = f.failures
	targets.mu.Unlock()
	f.running.Go(func() {
		err := f.watcher.Run(ctx, f.handle)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.err = err
		if err != nil {
			log.Error("processes are no longer found", "err", err)
		}
	})
	return f, nil
}

// watchPods begins to watch the pods of the node, if that is wanted.
func (f *finder) watchPods(ctx context.Context, k *config.Kubernetes) error {
	if k.Enabled == "false" {
		return nil
	}
	w, err := kube.Start(ctx, kube.Options{Node: f.node, Kubeconfig: k.Kubeconfig, UserAgent: "loupe-agent", Changed: f.podChanged, Log: f.log})
	switch {
	case err == nil:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.pods = w
	case errors.Is(err, kube.ErrNotInCluster) && k.Enabled == "auto":
		f.log.Debug("pods are unknown: the agent does not run in a pod")
	default:
		return fmt.Errorf("kubernetes: %w", err)
	}
	return nil
}

// handle passes on a change of the processes.
func (f *finder) handle(e discover.Event) {
	f.mu.Lock()
	if e.Kind != discover.Appeared {
		gone := e.Process.ID
		if e.Kind == discover.Replaced {
			gone = e.Previous.ID
		}
		delete(f.processes, gone)
		defer f.targets.vanished(gone)
	}
	if e.Kind == discover.Vanished {
		f.mu.Unlock()
		return
	}
	f.processes[e.Process.ID] = e.Process
	subject, identity := f.describe(&e.Process)
	f.mu.Unlock()
	f.targets.appeared(e.Process.ID, subject, identity)
}

// podChanged passes on what has changed about the processes of a pod.
func (f *finder) podChanged(uid string) {
	type change struct {
		id       goproc.Identity
		subject  config.Subject
		identity metric.Identity
	}
	var list []change
	f.mu.Lock()
	for id, p := range f.processes {
		if p.Container.PodUID == uid {
			s, i := f.describe(&p)
			list = append(list, change{id, s, i})
		}
	}
	f.mu.Unlock()
	for _, c := range list {
		f.targets.described(c.id, c.subject, c.identity)
	}
}

// describe returns what is known about a process. The caller holds mu.
func (f *finder) describe(p *discover.Process) (config.Subject, metric.Identity) {
	s := config.Subject{PID: p.PID, Exe: p.Exe, UID: p.UID, User: f.user(p.UID)}
	i := metric.Identity{PID: p.PID, Process: path.Base(p.Exe), Exe: p.Exe, ContainerID: p.Container.ID, PodUID: p.Container.PodUID, Node: f.node}
	if p.Exe == "" {
		i.Process = p.Comm
	}
	if f.pods != nil && (p.Container.PodUID != "" || p.Container.ID != "") {
		if pod, ok := f.pods.Find(p.Container.PodUID, p.Container.ID); ok {
			s.Namespace, s.Pod, s.Labels, s.Annotations = pod.Namespace, pod.Name, pod.Labels, pod.Annotations
			i.Namespace, i.Pod, i.PodUID, i.Container, i.Workload, i.Kind = pod.Namespace, pod.Name, pod.UID, pod.Container, pod.Workload, pod.WorkloadKind
		}
	}
	i.Extra = attributes(p.ResourceAttributes)
	i.Service = p.ServiceName
	for _, kv := range i.Extra {
		if kv.Key == "service.name" && i.Service == "" {
			i.Service = kv.Value
		}
	}
	if i.Service == "" {
		i.Service = i.Workload
	}
	if i.Service == "" {
		i.Service = i.Process
	}
	return s, i
}

// maxUsers is the number of names of users that are remembered.
const maxUsers = 1000

// user returns the name of a user, or an empty string.
func (f *finder) user(id int) string {
	name, known := f.users[id]
	if known || id < 0 {
		return name
	}
	if u, err := user.LookupId(strconv.Itoa(id)); err == nil {
		name = u.Username
	}
	if len(f.users) >= maxUsers {
		clear(f.users)
	}
	f.users[id] = name
	return name
}

// maxAttributes is the number of attributes that are taken from OTEL_RESOURCE_ATTRIBUTES of a process.
const maxAttributes = 32

// attributes parses OTEL_RESOURCE_ATTRIBUTES. What cannot be parsed is left out: it is the program's own configuration.
func attributes(text string) (list []metric.KeyValue) {
	for pair := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(pair, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if unescaped, err := url.PathUnescape(value); err == nil {
			value = unescaped
		}
		if ok && key != "" && len(list) < maxAttributes {
			list = append(list, metric.KeyValue{Key: key, Value: value})
		}
	}
	return list
}

// source returns where processes are learned of, as soon as that is known. It is empty if that fails.
func (f *finder) source(ctx context.Context) discover.Source {
	for ctx.Err() == nil {
		source := f.watcher.Stats().Source
		f.mu.Lock()
		failed := f.err != nil
		f.mu.Unlock()
		if source != "" || failed {
			return source
		}
		time.Sleep(time.Millisecond)
	}
	return ""
}

// problems returns what prevents processes and pods from being found, a line each.
func (f *finder) problems() (list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		list = append(list, fmt.Sprintf("processes are not found: %v", f.err))
	}
	if s := f.watcher.Stats(); s.Failed[discover.CausePermission] > 0 && s.Go+s.NotGo <= 1 { // the one is the agent
		list = append(list, "no process can be read: CAP_SYS_PTRACE is missing, or a security module refuses it")
	}
	if f.pods != nil {
		switch s := f.pods.Status(); {
		case s.LastError != nil:
			list = append(list, fmt.Sprintf("pods are not up to date: %v", s.LastError))
		case !s.Synced:
			list = append(list, "pods are not known yet")
		}
	}
	return list
}

// failures returns the number of programs that could not be read so far, by cause as metric.AttachFailures has it. Whether they are Go
// programs is unknown.
func (f *finder) failures() map[string]uint64 {
	list := map[string]uint64{}
	for cause, n := range f.watcher.Stats().Failed {
		switch cause {
		case discover.CausePermission, discover.CauseUnsupported: // the same words
			list[cause] += n
		default:
			list[causeOther] += n
		}
	}
	return list
}

// close ends the search.
func (f *finder) close() {
	f.stop()
	f.running.Wait()
	if f.pods != nil {
		f.pods.Close()
	}
}
