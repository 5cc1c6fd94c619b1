package container

import (
	"strings"
	"testing"
)

const (
	one   = "0f3b1a8c5d7e9f2a4b6c8d0e1f3a5b7c9d1e3f5a7b9c0d2e4f6a8b0c1d3e5f7a"
	two   = "b7c9d1e3f5a7b9c0d2e4f6a8b0c1d3e5f7a0f3b1a8c5d7e9f2a4b6c8d0e1f3a5"
	uid   = "6f7d9d2e-3a1b-4c5d-8e9f-0a1b2c3d4e5f"
	uid_  = "6f7d9d2e_3a1b_4c5d_8e9f_0a1b2c3d4e5f"
	other = "11111111-2222-4333-8444-555555555555"
	hash  = "3c1f9a0b7d5e4c2b8a6f1e0d9c7b5a39" // UID of a pod that a file describes
)

// TestParse parses the paths that container runtimes create.
func TestParse(t *testing.T) {
	tests := []struct {
		name, cgroup string
		want         Ref
	}{
		{"none, v2", "0::/user.slice/user-1000.slice/session-3.scope\n", Ref{}},
		{"none, root", "0::/\n", Ref{}},
		{"none, v1", "12:memory:/system.slice/ssh.service\n1:name=systemd:/system.slice/ssh.service\n0::/system.slice/ssh.service\n", Ref{}},
		{"empty", "", Ref{}},
		{"no path", "0:\n\n::\n", Ref{}},

		{"docker, cgroupfs, v1", "11:pids:/docker/" + one + "\n10:memory:/docker/" + one + "\n1:name=systemd:/docker/" + one + "\n", Ref{one, Docker, ""}},
		{"docker, cgroupfs, v2", "0::/docker/" + one + "\n", Ref{one, Docker, ""}},
		{"docker, systemd", "0::/system.slice/docker-" + one + ".scope\n", Ref{one, Docker, ""}},
		{"docker, systemd, in a service", "0::/system.slice/docker-" + one + ".scope/system.slice/app.service\n", Ref{one, Docker, ""}},
		{"docker, rootless", "0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + one + ".scope\n", Ref{one, Docker, ""}},
		{"docker, --cgroup-parent", "0::/actions_job/" + one + "\n", Ref{one, "", ""}},
		{"docker, hybrid, one hierarchy", "3:cpuset:/\n2:memory:/docker/" + one + "\n0::/\n", Ref{one, Docker, ""}},
		{"docker, Kubernetes, cgroupfs", "4:memory:/kubepods/burstable/pod" + uid + "/" + one + "\n", Ref{one, "", uid}},
		{"docker, Kubernetes, systemd", "4:memory:/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uid_ + ".slice/docker-" + one + ".scope\n", Ref{one, Docker, uid}},
		{"docker in docker, cgroupfs", "4:memory:/docker/" + one + "/docker/" + two + "\n", Ref{two, Docker, ""}},
		{"docker in docker, systemd", "0::/system.slice/docker-" + one + ".scope/system.slice/docker-" + two + ".scope\n", Ref{two, Docker, ""}},
		{"docker in a pod", "0::/kubepods/burstable/pod" + uid + "/" + one + "/docker/" + two + "\n", Ref{two, Docker, uid}},

		{"containerd, burstable, systemd", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uid_ + ".slice/cri-containerd-" + one + ".scope\n", Ref{one, Containerd, uid}},
		{"containerd, best effort, systemd", "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + uid_ + ".slice/cri-containerd-" + one + ".scope\n", Ref{one, Containerd, uid}},
		{"containerd, guaranteed, systemd", "0::/kubepods.slice/kubepods-pod" + uid_ + ".slice/cri-containerd-" + one + ".scope\n", Ref{one, Containerd, uid}},
		{"containerd, burstable, cgroupfs", "0::/kubepods/burstable/pod" + uid + "/" + one + "\n", Ref{one, "", uid}},
		{"containerd, best effort, cgroupfs", "0::/kubepods/besteffort/pod" + uid + "/" + one + "\n", Ref{one, "", uid}},
		{"containerd, guaranteed, cgroupfs", "9:cpu,cpuacct:/kubepods/pod" + uid + "/" + one + "\n0::/\n", Ref{one, "", uid}},
		{"containerd, the kubelet's driver is systemd and containerd's is not", "9:pids:/system.slice/containerd.service/kubepods-besteffort-pod" + uid_ + ".slice:cri-containerd:" + one + "\n", Ref{one, Containerd, uid}},
		{"containerd, static pod, systemd", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + hash + ".slice/cri-containerd-" + one + ".scope\n", Ref{one, Containerd, hash}},
		{"containerd, static pod, cgroupfs", "0::/kubepods/burstable/pod" + hash + "/" + one + "\n", Ref{one, "", hash}},
		{"containerd, systemd in the container", "0::/kubepods.slice/kubepods-pod" + uid_ + ".slice/cri-containerd-" + one + ".scope/init.scope\n", Ref{one, Containerd, uid}},
		{"ctr", "0::/k8s.io/" + one + "\n", Ref{one, Containerd, ""}},
		{"nerdctl", "0::/system.slice/nerdctl-" + one + ".scope\n", Ref{one, Containerd, ""}},
		{"k3s, --cgroup-root", "0::/k3s/kubepods/burstable/pod" + uid + "/" + one + "\n", Ref{one, "", uid}},

		{"cri-o, systemd", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uid_ + ".slice/crio-" + one + ".scope\n", Ref{one, CRIO, uid}},
		{"cri-o, systemd, crun", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uid_ + ".slice/crio-" + one + ".scope/container\n", Ref{one, CRIO, uid}},
		{"cri-o, cgroupfs", "7:memory:/kubepods/besteffort/pod" + uid + "/crio-" + one + "\n", Ref{one, CRIO, uid}},
		{"cri-o, monitor", "0::/kubepods.slice/kubepods-pod" + uid_ + ".slice/crio-conmon-" + one + ".scope\n", Ref{"", "", uid}},
		{"cri-o, the kubelet's driver is systemd and cri-o's is not", "9:pids:/system.slice/crio.service/kubepods-pod" + uid_ + ".slice:crio:" + one + "\n", Ref{one, CRIO, uid}},

		{"podman", "0::/machine.slice/libpod-" + one + ".scope\n", Ref{one, Podman, ""}},
		{"podman, crun", "0::/machine.slice/libpod-" + one + ".scope/container\n", Ref{one, Podman, ""}},
		{"podman, rootless", "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + one + ".scope/container\n", Ref{one, Podman, ""}},
		{"podman, cgroupfs", "5:devices:/libpod_parent/libpod-" + one + "\n", Ref{one, Podman, ""}},
		{"podman, pod", "0::/machine.slice/machine-libpod_pod_" + two + ".slice/libpod-" + one + ".scope/container\n", Ref{one, Podman, ""}},
		{"podman, --cgroups=split", "0::/system.slice/app.service/libpod-payload-" + one + "\n", Ref{one, Podman, ""}},
		{"podman, monitor", "0::/machine.slice/libpod-conmon-" + one + ".scope\n", Ref{}},

		{"kind, systemd", "0::/system.slice/docker-" + one + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + uid_ + ".slice/cri-containerd-" + two + ".scope\n", Ref{two, Containerd, uid}},
		{"kind, cgroupfs", "4:memory:/docker/" + one + "/kubelet/kubepods/besteffort/pod" + uid + "/" + two + "\n", Ref{two, "", uid}},
		{"kind, the kubelet", "0::/docker/" + one + "/kubelet.slice/kubelet.service\n", Ref{one, Docker, ""}},
		{"kind, a pod without its container", "0::/docker/" + one + "/kubelet/kubepods/pod" + uid + "\n", Ref{"", "", uid}},
		{"a pod in a pod", "0::/kubepods/pod" + other + "/" + one + "/kubepods/burstable/pod" + uid + "/" + two + "\n", Ref{two, "", uid}},

		{"from a container, other slice", "0::/../../../kubepods-besteffort.slice/kubepods-besteffort-pod" + uid_ + ".slice/cri-containerd-" + one + ".scope\n", Ref{one, Containerd, uid}},
		{"from a container, same slice", "0::/../../kubepods-burstable-pod" + uid_ + ".slice/crio-" + one + ".scope\n", Ref{one, CRIO, uid}},
		{"from a container, cgroupfs", "0::/../../pod" + uid + "/" + one + "\n", Ref{one, "", uid}},
		{"from a container, same pod", "0::/../cri-containerd-" + one + ".scope\n", Ref{one, Containerd, ""}},
		{"from a container, on the host", "0::/../../../../system.slice/ssh.service\n", Ref{}},
		{"from a container, docker", "0::/../docker-" + one + ".scope\n", Ref{one, Docker, ""}},
		{"from a container, itself", "0::/\n", Ref{}},

		{"too short", "0::/docker/" + one[1:] + "\n", Ref{}},
		{"too long", "0::/docker/a" + one + "\n", Ref{}},
		{"not hexadecimal", "0::/docker/" + one[1:] + "g\n", Ref{}},
		{"upper case", "0::/docker/" + strings.ToUpper(one) + "\n", Ref{}},
		{"a slice is not a container", "0::/machine-libpod_pod_" + two + ".slice/app.service\n", Ref{}},
		{"not a UID", "0::/kubepods/podcast/" + one + "\n", Ref{one, "", ""}},
		{"not a UID, dashes elsewhere", "0::/kubepods/pod6f7d9d2e3-a1b-4c5d-8e9f-0a1b2c3d4e5f/" + one + "\n", Ref{one, "", ""}},
		{"unknown runtime", "0::/foo.slice/bar-" + one + ".scope\n", Ref{one, "", ""}},
		{"no newline at the end", "0::/docker/" + one, Ref{one, Docker, ""}},
		{"colons in a name", "0::/a:b:c/docker/" + one + "\n", Ref{one, Docker, ""}},
		{"deleted", "0::/docker/" + one + " (deleted)\n", Ref{one, Docker, ""}},
	}
	for _, test := range tests {
		if got := Parse(test.cgroup); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

// FuzzParse checks that the fields of a Ref cannot contain anything else than documented.
func FuzzParse(f *testing.F) {
	f.Add("0::/kubepods.slice/kubepods-burstable-pod" + uid_ + ".slice/cri-containerd-" + one + ".scope\n")
	f.Add("4:memory:/docker/" + one + "/kubelet/kubepods/besteffort/pod" + uid + "/" + two + "\n")
	f.Add("9:pids:/system.slice/kubepods-besteffort-pod" + hash + ".slice:cri-containerd:" + one + "\n0::/\n")
	f.Fuzz(func(t *testing.T, cgroup string) {
		ref := Parse(cgroup)
		if ref.ID != "" && (len(ref.ID) != idLen || !isHex(ref.ID)) {
			t.Errorf("ID %q", ref.ID)
		}
		if ref.PodUID != "" && !isUID(ref.PodUID) {
			t.Errorf("UID %q", ref.PodUID)
		}
		switch ref.Runtime {
		case "":
		case Containerd, CRIO, Docker, Podman:
			if ref.ID == "" {
				t.Errorf("a runtime and no ID: %+v", ref)
			}
		default:
			t.Errorf("runtime %q", ref.Runtime)
		}
	})
}
