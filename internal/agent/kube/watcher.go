package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// Options are the settings of a [Watcher].
type Options struct {
	// Node is the name of the node: spec.nodeName of its pods. It is required.
	Node string

	// Kubeconfig is the path of a kubeconfig file. If it is empty, the service account of the pod is used in which the agent runs.
	Kubeconfig string

	// UserAgent is what requests to the API server are named; client-go's default if empty.
	UserAgent string

	// Changed is called after a pod appeared, changed or disappeared, with the UID that is in the paths of its cgroups. [Watcher.Find]
	// returns the new state then. Calls come from one goroutine, which receives no more changes until Changed returns. Optional.
	Changed func(podUID string)

	// Log receives one record when the API server becomes unavailable or denies access, and one when it is available again. What
	// client-go logs goes to the first Log of the process, at level Debug. Nil discards all.
	Log *slog.Logger

	backoff *wait.Backoff // of requests that fail; client-go's default if nil
}

// A Watcher knows the pods of a node. Its methods can be called by several goroutines.
type Watcher struct {
	opts   Options
	client *http.Client
	store  *store
	stop   context.CancelFunc
	ended  chan struct{}

	mu    sync.Mutex
	err   error     // of the last request; nil if it succeeded
	since time.Time // when err became what it is
}

// Status is the state of a [Watcher].
type Status struct {
	Synced bool // all pods of the node were received at least once
	Pods   int  // that are known

	// Omitted is the number of labels, annotations, containers and pods that are not kept, because Kubernetes would not permit them, or
	// because there are too many.
	Omitted int

	// LastError says why the API server is unavailable, or what permission is missing. It is nil while pods are watched, and until the
	// first response. The pods that are known are kept, and the server is asked again.
	LastError error
	Since     time.Time // when LastError became what it is
}

// Start begins to watch the pods of a node. It returns without waiting for the API server, which may be unavailable. The Watcher ends
// with Close or when ctx ends. An error says what is wrong with the options; it wraps [ErrNotInCluster] if there is no service account.
func Start(ctx context.Context, opts Options) (*Watcher, error) {
	if opts.Node == "" {
		return nil, errors.New("cannot watch pods: the name of the node is unknown: set NODE_NAME (in a pod: from fieldRef spec.nodeName)")
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Changed == nil {
		opts.Changed = func(string) {}
	}
	ctx, stop := context.WithCancel(withLog(ctx, opts.Log))
	lw, client, err := newSource(opts)
	if err != nil {
		stop()
		return nil, fmt.Errorf("cannot watch pods: %w", err)
	}
	w := &Watcher{opts: opts, client: client, stop: stop, ended: make(chan struct{}), since: time.Now()}
	source := &observedSource{ListWatch: lw, observe: w.observe}
	w.store = newStore(opts, source.replaced)
	r := cache.NewReflectorWithOptions(source, &corev1.Pod{}, w.store,
		cache.ReflectorOptions{Name: "pods", Clock: untilDone{ctx: ctx}, Backoff: opts.backoff})
	go func() {
		defer close(w.ended)
		r.RunWithContext(ctx)
		utilnet.CloseIdleConnectionsFor(client.Transport)
	}()
	return w, nil
}

// Close ends the Watcher and waits until its goroutines have ended. Changed is not called afterwards, and must not call Close.
func (w *Watcher) Close() {
	w.stop()
	<-w.ended
}

// Status returns the state of the Watcher.
func (w *Watcher) Status() Status {
	s := w.store.status()
	w.mu.Lock()
	defer w.mu.Unlock()
	s.LastError, s.Since = w.err, w.since
	return s
}

// Find returns the pod and container of a process. The path of its cgroup has both IDs; either may be empty. containerID may have a
// prefix as in "containerd://". If only the pod is known, because its status does not have the container yet, Container is empty.
func (w *Watcher) Find(podUID, containerID string) (Pod, bool) {
	return w.store.find(podUID, containerID)
}

// observe records the result of a request.
func (w *Watcher) observe(err error) {
	if err != nil {
		err = explain(w.opts.Node, err)
	}
	w.mu.Lock()
	before := w.err
	if before == nil && err == nil || before != nil && err != nil && before.Error() == err.Error() {
		w.mu.Unlock()
		return
	}
	w.err, w.since = err, time.Now()
	w.mu.Unlock()
	if err != nil {
		w.opts.Log.Warn(err.Error())
	} else {
		w.opts.Log.Info("watching pods again", "node", w.opts.Node)
	}
}

// untilDone is a clock whose waits end with a context. The reflector does not end some of its waits otherwise.
type untilDone struct {
	clock.RealClock
	ctx context.Context
}

// After implements clock.Clock.
func (c untilDone) After(d time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	ctx, cancel := context.WithTimeout(c.ctx, d)
	context.AfterFunc(ctx, func() {
		cancel()
		fired <- time.Now()
	})
	return fired
}
