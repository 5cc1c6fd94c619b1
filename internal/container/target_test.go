package container

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// kubelet returns a directory as the kubelet makes it, with pods and other files.
func kubelet(t *testing.T) string {
	dir := t.TempDir()
	for _, name := range []string{
		"shop_web-0_" + uid, "shop_web-0_11111111-2222-4333-8444-555555555555", "bank_web-0_99999999-2222-4333-8444-555555555555",
		"kube-system_etcd-node-a_" + hash,
		"_x_" + uid, "shop__" + uid, "shop_x_y", "shop_x", "shop_a_b_" + uid, "lost+found",
	} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "shop_file_"+uid), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestPods reads the pods of a kubelet's directory.
func TestPods(t *testing.T) {
	dir := kubelet(t)
	want := []Pod{
		{"bank", "web-0", "99999999-2222-4333-8444-555555555555"}, {"kube-system", "etcd-node-a", hash},
		{"shop", "web-0", other}, {"shop", "web-0", uid},
	}
	for name, dirs := range map[string][]string{"the first": {dir, t.TempDir()}, "the second": {filepath.Join(dir, "no"), dir}} {
		if got, err := Pods(dirs); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, want)
		}
	}
	for name, dirs := range map[string][]string{"two": {filepath.Join(dir, "no"), filepath.Join(dir, "nor")}, "none": nil} {
		if got, err := Pods(dirs); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestTarget parses targets, and matches processes with them.
func TestTarget(t *testing.T) {
	dirs := []string{kubelet(t)}
	const bank = "99999999-2222-4333-8444-555555555555"
	refs := []Ref{{}, {ID: one}, {ID: two, Runtime: Containerd, PodUID: uid}, {PodUID: bank}, {PodUID: hash}}
	tests := []struct {
		target   string
		match    []int // indexes in refs
		implicit bool
		err      string
	}{
		{target: "container:" + one, match: []int{1}},
		{target: "container:" + one[:12], match: []int{1}},
		{target: two, match: []int{2}, implicit: true},
		{target: two[:12], match: []int{2}, implicit: true},
		{target: two[:20] + "0", implicit: true},
		{target: "container:" + one[:11], err: "container:0f3b1a8c5d7: not a container ID: use 12 to 64 hexadecimal digits"},
		{target: "container:" + one + "0", err: "container:" + one + "0: not a container ID: use 12 to 64 hexadecimal digits"},
		{target: "container:", err: "container:: not a container ID: use 12 to 64 hexadecimal digits"},
		{target: "container:my-database", err: "container:my-database: not a container ID: use 12 to 64 hexadecimal digits"},
		{target: "pod:web-0", match: []int{2, 3}},
		{target: "pod:shop/web-0", match: []int{2}},
		{target: "pod:bank/web-0", match: []int{3}},
		{target: "pod:kube-system/etcd-node-a", match: []int{4}},
		{target: "pod:web"},
		{target: "pod:bank/web"},
		{target: "pod:", err: "pod:: not a pod: use pod:NAME or pod:NAMESPACE/NAME"},
		{target: "pod:/web", err: "pod:/web: not a pod: use pod:NAME or pod:NAMESPACE/NAME"},
		{target: "pod:shop/", err: "pod:shop/: not a pod: use pod:NAME or pod:NAMESPACE/NAME"},
		{target: "pod:shop/web/0", err: "pod:shop/web/0: not a pod: use pod:NAME or pod:NAMESPACE/NAME"},
	}
	for _, test := range tests {
		target, ok, err := ParseTarget(test.target)
		if test.err != "" {
			if err == nil || err.Error() != test.err {
				t.Errorf("%s: error %v, want %s", test.target, err, test.err)
			}
			continue
		}
		if err != nil || !ok || target.Implicit() != test.implicit {
			t.Errorf("%s: %+v, %t, %v", test.target, target, ok, err)
			continue
		}
		match, err := target.Matcher(dirs)
		if err != nil {
			t.Errorf("%s: %v", test.target, err)
			continue
		}
		var got []int
		for i, r := range refs {
			if match(r) {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, test.match) {
			t.Errorf("%s matches %v, want %v", test.target, got, test.match)
		}
	}
	for _, target := range []string{"", "42", "12345678901", "app", "./app", "/usr/bin/app", "deadbeef", one + "0", "pods:x"} {
		if got, ok, err := ParseTarget(target); ok || err != nil {
			t.Errorf("%q: %+v, %v", target, got, err)
		}
	}
}

// TestTargetWithoutKubelet wants the reason why a pod cannot be found.
func TestTargetWithoutKubelet(t *testing.T) {
	target, ok, err := ParseTarget("pod:web-0")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	const want = "pod:web-0: cannot read the names of pods (run on the node of the pod, with sudo): open /nowhere/a: no such file or directory; open /nowhere/b: no such file or directory"
	if _, err = target.Matcher([]string{"/nowhere/a", "/nowhere/b"}); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
