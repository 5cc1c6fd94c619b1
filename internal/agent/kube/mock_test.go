package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/loupe-go/loupe/internal/testkube"
)

// A mock imitates what the API server does for list and watch requests of pods, in JSON. It ignores selectors. TestAPIServer has the
// real one.
type mock struct {
	*httptest.Server

	mu          sync.Mutex
	version     int
	pods        map[types.UID]*corev1.Pod
	events      []mockEvent
	news        chan struct{} // closed when there is another event, or all watches must end
	refuse      int           // the status of all responses, if not 0
	noWatchList bool          // the server is old
	hang        bool          // no request is answered
	selectors   []string
	agents      []string
}

type mockEvent struct {
	version int
	Type    string `json:"type"`
	Object  any    `json:"object"`
}

func newMock(t *testing.T) *mock {
	t.Helper()
	m := &mock{pods: map[types.UID]*corev1.Pod{}, news: make(chan struct{})}
	m.Server = httptest.NewUnstartedServer(m)
	m.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	m.Start()
	t.Cleanup(func() {
		m.CloseClientConnections()
		m.Close()
	})
	return m
}

// set changes the behaviour of the server and ends all watches.
func (m *mock) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	m.wake()
}

func (m *mock) wake() {
	close(m.news)
	m.news = make(chan struct{})
}

// put creates or changes a pod, or deletes it.
func (m *mock) put(event string, pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version++
	pod = pod.DeepCopy()
	pod.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	pod.ResourceVersion = strconv.Itoa(m.version)
	m.pods[pod.UID] = pod
	if event == "DELETED" {
		delete(m.pods, pod.UID)
	}
	m.events = append(m.events, mockEvent{m.version, event, pod})
	m.wake()
}

func (m *mock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	m.mu.Lock()
	m.selectors, m.agents = append(m.selectors, query.Get("fieldSelector")), append(m.agents, r.UserAgent())
	refuse, hang, version, old := m.refuse, m.hang, m.version, m.noWatchList
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(version)}}
	for _, pod := range m.pods {
		list.Items = append(list.Items, *pod)
	}
	m.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case hang:
		<-r.Context().Done()
	case refuse == 0 && query.Get("watch") == "":
		_ = json.NewEncoder(w).Encode(list) // the client may be gone
	case refuse == 0 && query.Get("sendInitialEvents") == "":
		after, _ := strconv.Atoi(query.Get("resourceVersion"))
		m.stream(w, r, after)
	case refuse == 0 && !old:
		out := json.NewEncoder(w)
		for i := range list.Items {
			_ = out.Encode(mockEvent{Type: "ADDED", Object: &list.Items[i]})
		}
		_ = out.Encode(mockEvent{Type: "BOOKMARK", Object: &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}})
		m.stream(w, r, version)
	default:
		if refuse == 0 {
			refuse = http.StatusUnprocessableEntity
		}
		w.WriteHeader(refuse)
		reason := map[int]metav1.StatusReason{401: metav1.StatusReasonUnauthorized, 403: metav1.StatusReasonForbidden, 422: metav1.StatusReasonInvalid}[refuse]
		_ = json.NewEncoder(w).Encode(&metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Code: int32(refuse), Reason: reason, Message: "no\x1b[31m" + strings.Repeat("!", 64<<10)})
	}
}

// stream sends events until the server stops the watch.
func (m *mock) stream(w http.ResponseWriter, r *http.Request, after int) {
	out := json.NewEncoder(w)
	for {
		_ = http.NewResponseController(w).Flush()
		m.mu.Lock()
		news, refuse := m.news, m.refuse
		var events []mockEvent
		for _, e := range m.events {
			if e.version > after {
				events = append(events, e)
				after = e.version
			}
		}
		m.mu.Unlock()
		if refuse != 0 {
			return
		}
		for _, e := range events {
			_ = out.Encode(e)
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-news:
		case <-r.Context().Done():
			return
		}
	}
}

// watchMock starts a Watcher of the node "one" of a mock.
func watchMock(t *testing.T, m *mock, opts Options) *Watcher {
	t.Helper()
	opts.Node, opts.Kubeconfig = "one", testkube.WriteKubeconfig(t, m.URL, "", "")
	return start(t, opts)
}

func start(t *testing.T, opts Options) *Watcher {
	t.Helper()
	w, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// patience is how long tests wait on a machine that is busy.
const patience = 2 * time.Minute

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("this does not become true: " + what)
		}
	}
}

// A logged is a log that tests read.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(io.Writer(l), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// lines returns the lines of a level.
func (l *logged) lines(level slog.Level) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, " level="+level.String()+" ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// runningPod returns a pod of the node "one" with a container "main" whose ID is that of the pod with "-main".
func runningPod(name, uid string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid)},
		Spec:       corev1.PodSpec{NodeName: "one", Containers: []corev1.Container{{Name: "main", Image: "example.com/main"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "main", ContainerID: fmt.Sprintf("containerd://%s-main", uid)}}},
	}
}
