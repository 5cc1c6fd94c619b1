package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"

	"github.com/loupe-go/loupe/internal/term"
)

// ErrNotInCluster is the error if there is neither a kubeconfig nor a service account of a pod.
var ErrNotInCluster = rest.ErrNotInCluster

// newSource returns the source of the pods of a node, and its HTTP client.
func newSource(opts Options) (*cache.ListWatch, *http.Client, error) {
	config, err := newConfig(opts)
	if err != nil {
		return nil, nil, err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, err
	}
	restClient, err := rest.RESTClientForConfigAndClient(config, client)
	if err != nil {
		return nil, nil, err
	}
	// Pods that have ended have no processes, and there can be many.
	selector := fields.AndSelectors(fields.OneTermEqualSelector("spec.nodeName", opts.Node),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)))
	return cache.NewListWatchFromClient(restClient, "pods", metav1.NamespaceAll, selector), client, nil
}

func newConfig(opts Options) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if opts.Kubeconfig == "" {
		config, err = rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			err = fmt.Errorf("%w: run the agent in a pod with a service account, or set a kubeconfig", err)
		}
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", opts.Kubeconfig)
	}
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType = runtime.ContentTypeProtobuf // cheaper to decode than JSON
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.WarningHandlerWithContext = rest.NoWarnings{} // the default writes to the log
	if file := config.BearerTokenFile; file != "" {
		// By default, client-go reads the file only each minute, even if the server refuses the token.
		config.BearerToken, config.BearerTokenFile = "", ""
		config.Wrap(transport.ResettableTokenSourceWrapTransport(transport.NewCachedFileTokenSource(file)))
	}
	if opts.UserAgent != "" {
		config.UserAgent = opts.UserAgent
	}
	return config, nil
}

// An observedSource passes on the result of each request, of which the reflector reports only some. All is well when a watch begins;
// with a watch that first returns all pods, when these have been received.
type observedSource struct {
	*cache.ListWatch
	observe   func(error)
	streaming atomic.Bool // the last request was a watch that first returns all pods
}

// ListWithContext implements cache.ListerWithContext.
func (s *observedSource) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	s.streaming.Store(false)
	list, err := s.ListWatch.ListWithContext(ctx, opts)
	if err != nil && ctx.Err() == nil {
		s.observe(err)
	}
	return list, err
}

// WatchWithContext implements cache.WatcherWithContext.
func (s *observedSource) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := s.ListWatch.WatchWithContext(ctx, opts)
	all := opts.SendInitialEvents != nil
	s.streaming.Store(all && err == nil)
	switch {
	case ctx.Err() != nil: // the Watcher ends
	case all && err == nil:
	case all && apierrors.ReasonForError(err) != metav1.StatusReasonUnknown && !apierrors.IsTooManyRequests(err):
		// The reflector lists the pods at once, because old servers support nothing else. The result of the list counts.
	default:
		s.observe(err)
	}
	return w, err
}

// replaced is called when all pods have been received.
func (s *observedSource) replaced() {
	if s.streaming.Swap(false) {
		s.observe(nil)
	}
}

// A watchError is an error with a text that is safe to print and says what to do.
type watchError struct {
	text string
	err  error
}

func (e *watchError) Error() string { return e.text }
func (e *watchError) Unwrap() error { return e.err }

// maxErrorText is how much of the server's text an error has, in bytes.
const maxErrorText = 500

// explain returns an error of a request as the user sees it.
func explain(node string, err error) error {
	text := err.Error()
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		text = failed.Err.Error() // without the long URL
	}
	text = term.Escape(strings.ToValidUTF8(text[:min(len(text), maxErrorText)], ""))
	switch {
	case apierrors.IsUnauthorized(err):
		text += ": the token is invalid or has expired; check the service account of the agent's pod, or the kubeconfig"
	case apierrors.IsForbidden(err):
		text += ": grant list and watch on pods to it by a ClusterRole"
	}
	return &watchError{text: fmt.Sprintf("cannot watch the pods of node %q: %s", node, text), err: err}
}
