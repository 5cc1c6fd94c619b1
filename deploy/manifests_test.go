package deploy

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// decode decodes manifests strictly: unknown fields, duplicate keys and values of the wrong type are errors.
func decode(text string) ([]runtime.Object, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, networkingv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	serializer := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	var objects []runtime.Object
	for _, document := range strings.Split("\n"+text, "\n---\n") {
		var content any
		if err := yaml.NewDecoder(bytes.NewReader([]byte(document))).Decode(&content); err == io.EOF || content == nil {
			continue // nothing but comments
		}
		object, _, err := serializer.Decode([]byte(document), nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, document)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// TestManifests decodes what the chart renders with different values, and checks what holds between the objects.
func TestManifests(t *testing.T) {
	file, err := os.ReadFile("kubernetes/loupe-agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	texts := renderings(t)
	texts["plain"] = string(file)
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			objects, err := decode(text)
			if err != nil {
				t.Fatal(err)
			}
			if problems := judge(objects); len(problems) > 0 {
				t.Errorf("%s", problems)
			}
			if name == "plain" && len(objects) != 8 {
				t.Errorf("%d objects", len(objects))
			}
		})
	}
}

// TestManifestsDetect breaks the manifests in ways that the other test must notice.
func TestManifestsDetect(t *testing.T) {
	file, err := os.ReadFile("kubernetes/loupe-agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{"readOnlyRootFilesystem: true", "readOnlyRootFileSystem: true"}, {"port: health}", "port: healthy}"}, {"targetPort: metrics", "targetPort: metric"},
		{"{protocol: TCP, port: metrics}", "{protocol: TCP, port: metric}"}, {"name: config, mountPath", "name: conf, mountPath"},
		{"configMap: {name: loupe-agent}", "configMap: {name: agent}"}, {"serviceAccountName: loupe-agent", "serviceAccountName: agent"},
		{"  verbs: [list, watch]", "  verbs: [get, list, watch]"}, {"- SYS_PTRACE", "- SYS_ADMIN"}, {"drop: [ALL]", "drop: []"},
		{"hostPID: true", "hostPID: false"}, {"  clusterIP: None\n  selector:\n", "  clusterIP: None\n  selector:\n    a: b\n"}, {"memory: 768Mi", "memory: 768Mb"},
	} {
		if !strings.Contains(string(file), change[0]) {
			t.Fatalf("the manifests do not contain %q", change[0])
		}
		objects, err := decode(strings.ReplaceAll(string(file), change[0], change[1]))
		if err == nil && len(judge(objects)) == 0 {
			t.Errorf("nothing is wrong with %q instead of %q", change[1], change[0])
		}
	}
}

// judge returns what is wrong with the objects as a whole.
func judge(objects []runtime.Object) (problems []string) {
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	names := map[string]bool{}
	var set *appsv1.DaemonSet
	for _, o := range objects {
		meta := o.(metav1.Object)
		kind := o.GetObjectKind().GroupVersionKind().Kind
		names[kind+" "+meta.GetName()] = true
		if d, ok := o.(*appsv1.DaemonSet); ok {
			set = d
		}
	}
	if set == nil {
		return []string{"no DaemonSet"}
	}
	pod := set.Spec.Template
	judgePod(pod, names, wrong)
	if selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector); err != nil || !selector.Matches(labels.Set(pod.Labels)) {
		wrong("the DaemonSet does not select its pods: %v", err)
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Service:
			if !labels.SelectorFromSet(o.Spec.Selector).Matches(labels.Set(pod.Labels)) {
				wrong("the Service does not select the pods")
			}
			for _, p := range o.Spec.Ports {
				judgePort(pod, p.TargetPort, "Service", wrong)
			}
		case *networkingv1.NetworkPolicy:
			if selector, err := metav1.LabelSelectorAsSelector(&o.Spec.PodSelector); err != nil || !selector.Matches(labels.Set(pod.Labels)) {
				wrong("the NetworkPolicy does not select the pods: %v", err)
			}
			for _, rule := range o.Spec.Ingress {
				for _, p := range rule.Ports {
					judgePort(pod, *p.Port, "NetworkPolicy", wrong)
				}
			}
		case *rbacv1.ClusterRole:
			want := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}}}
			if fmt.Sprint(o.Rules) != fmt.Sprint(want) {
				wrong("the role permits %v", o.Rules)
			}
		case *rbacv1.ClusterRoleBinding:
			if !names["ClusterRole "+o.RoleRef.Name] || len(o.Subjects) != 1 || o.Subjects[0].Name != pod.Spec.ServiceAccountName || o.Subjects[0].Namespace != set.Namespace {
				wrong("the binding is of %v to %v", o.RoleRef, o.Subjects)
			}
		}
	}
	return problems
}

// judgePort checks that a port of another object is one of the container.
func judgePort(pod corev1.PodTemplateSpec, port intstr.IntOrString, of string, wrong func(string, ...any)) {
	if !slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool {
		return port.Type == intstr.String && p.Name == port.StrVal
	}) {
		wrong("%s: the container has no port %s", of, port.String())
	}
}

// judgePod checks what the pod refers to and what it may do.
func judgePod(pod corev1.PodTemplateSpec, names map[string]bool, wrong func(string, ...any)) {
	c := pod.Spec.Containers[0]
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil {
			judgePort(pod, probe.HTTPGet.Port, "probe "+probe.HTTPGet.Path, wrong)
		}
	}
	var volumes []string
	for _, v := range pod.Spec.Volumes {
		volumes = append(volumes, v.Name)
		if m := v.ConfigMap; m != nil && !names["ConfigMap "+m.Name] {
			wrong("no ConfigMap %s", m.Name)
		}
		if v.HostPath != nil || v.EmptyDir != nil && v.EmptyDir.SizeLimit == nil {
			wrong("volume %s is of the host, or has no limit", v.Name)
		}
	}
	for _, m := range c.VolumeMounts {
		if !slices.Contains(volumes, m.Name) {
			wrong("no volume %s", m.Name)
		}
	}
	if account := pod.Spec.ServiceAccountName; account != "default" && !names["ServiceAccount "+account] {
		wrong("no ServiceAccount %s", account)
	}
	security := c.SecurityContext
	add := security.Capabilities.Add
	if len(add) < 3 || fmt.Sprint(add[:3]) != "[BPF PERFMON SYS_PTRACE]" || fmt.Sprint(security.Capabilities.Drop) != "[ALL]" {
		wrong("capabilities: %+v", security.Capabilities)
	}
	if *security.Privileged || *security.AllowPrivilegeEscalation || !*security.ReadOnlyRootFilesystem || security.SeccompProfile == nil {
		wrong("security context: %+v", security)
	}
	if !pod.Spec.HostPID || pod.Spec.HostNetwork || c.Resources.Limits.Memory().Cmp(*c.Resources.Requests.Memory()) < 0 {
		wrong("hostPID %v, hostNetwork %v, resources %v", pod.Spec.HostPID, pod.Spec.HostNetwork, c.Resources)
	}
}
